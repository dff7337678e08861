import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Base64;
import java.util.Properties;
import java.util.Scanner;

/**
 * Reads properties texts, one a line in base64 of UTF-16LE. Prints for each what Java makes of it: names and values, in
 * the same encoding, with a comma before each.
 */
public class PropertiesTexts {
    public static void main(String[] args) throws IOException {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            Properties found = new Properties();
            found.load(new StringReader(decode(lines.nextLine())));
            StringBuilder out = new StringBuilder();
            found.forEach((name, value) ->
                out.append(',').append(encode((String) name)).append(',').append(encode((String) value)));
            System.out.println(out);
        }
    }

    private static String decode(String word) {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(word)).order(ByteOrder.LITTLE_ENDIAN);
        return bytes.asCharBuffer().toString();
    }

    private static String encode(String text) {
        ByteBuffer bytes = ByteBuffer.allocate(2 * text.length()).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asCharBuffer().put(text);
        return Base64.getEncoder().encodeToString(bytes.array());
    }
}
