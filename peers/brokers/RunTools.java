import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/** Runs tools of Kafka one after another: a line of input is a class and its arguments, separated by tabs. */
public class RunTools {
    /** The exit code of the tool; a tool may catch what follows its first exit, and exit again. */
    private static Integer exitCode;

    /** Thrown where a tool would end the process. */
    static class Ended extends RuntimeException {
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (exitCode == null) {
                exitCode = code;
            }
            throw new Ended();
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            exitCode = null;
            try {
                Object args = Arrays.copyOfRange(words, 1, words.length);
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, args);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Ended)) {
                    System.out.println("Error: " + error.getCause());
                }
            }
            // A tool that catches what follows its exit may return as if nothing had happened.
            if (exitCode != null && exitCode != 0) {
                System.out.println("Exit: " + exitCode);
            }
            System.out.println();
            System.out.println("\u0004");
            System.out.flush();
        }
    }
}
