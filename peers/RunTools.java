import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Runs tools of Kafka one after another: a line of input is a class and its arguments, separated by tabs. */
public class RunTools {
    public static void main(String[] none) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                Object args = Arrays.copyOfRange(words, 1, words.length);
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, args);
            } catch (InvocationTargetException error) {
                System.out.println("Error: " + error.getCause());
            }
            System.out.println();
            System.out.println("\u0004");
            System.out.flush();
        }
    }
}
