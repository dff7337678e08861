import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;

import javax.security.auth.login.AppConfigurationEntry;

import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/**
 * Reads JAAS texts, one a line in base64. Prints for each what Kafka makes of it: the module, the flag, names and values
 * of the options, all in base64 and separated by spaces; or "refused".
 */
public class JaasTexts {
    public static void main(String[] args) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            System.out.println(parse(new String(Base64.getDecoder().decode(lines.nextLine()), StandardCharsets.UTF_8)));
        }
    }

    private static String parse(String text) {
        try {
            JaasContext context = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)));
            AppConfigurationEntry entry = context.configurationEntries().get(0);
            List<String> words = new ArrayList<>();
            words.add(entry.getLoginModuleName());
            String flag = entry.getControlFlag().toString();
            words.add(flag.substring(flag.indexOf(' ') + 1));
            for (Map.Entry<String, ?> option : new TreeMap<>(entry.getOptions()).entrySet()) {
                words.add(option.getKey());
                words.add((String) option.getValue());
            }
            List<String> encoded = new ArrayList<>();
            for (String word : words) {
                encoded.add(Base64.getEncoder().encodeToString(word.getBytes(StandardCharsets.UTF_8)));
            }
            return String.join(" ", encoded);
        } catch (RuntimeException error) {
            return "refused";
        }
    }
}
