// Checks of Kafka's Java clients against a broker: java -cp <kafka-clients and these classes> Conformance <bootstrap>
// A line for each check: its name, how it ended (passed, failed, skipped) and why, separated by tabs; after the last one
// "end", a tab, and how many there were.

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.errors.UnsupportedVersionException;

public class Conformance {
    /** A check throws what is wrong. */
    interface Check {
        void run(Kafka kafka) throws Exception;
    }

    public static void main(String[] args) {
        Map<String, Check> checks = new LinkedHashMap<>();
        Groups.add(checks);
        Offsets.add(checks);
        Transactions.add(checks);
        int count = 0;
        try (Kafka kafka = new Kafka(args[0])) {
            for (Map.Entry<String, Check> each : checks.entrySet()) {
                if (args.length > 1 && !each.getKey().contains(args[1])) {
                    continue;
                }
                run(each.getKey(), each.getValue(), kafka);
                count++;
            }
        }
        System.out.println("end\t" + count);
        // What a check that failed has left running does not hold the process.
        System.exit(0);
    }

    private static void run(String name, Check check, Kafka kafka) {
        String outcome = "passed";
        String why = "";
        try {
            check.run(kafka);
        } catch (Throwable error) {
            boolean lacks = caused(UnsupportedVersionException.class, error) != null;
            outcome = lacks ? "skipped" : "failed";
            why = lacks ? "the broker does not serve this protocol" : error.toString();
            error.printStackTrace();
        }
        System.out.println(name + "\t" + outcome + "\t" + why.replaceAll("\\s+", " "));
    }

    /** assert, whatever the JVM's options are. */
    static void check(boolean holds, Object told) {
        if (!holds) {
            throw new AssertionError(String.valueOf(told));
        }
    }

    static void equal(Object expected, Object found) {
        check(expected.equals(found), "expected " + expected + ", found " + found);
    }

    interface Act {
        void run() throws Exception;
    }

    /** What `act` throws, or the cause of it, which must be a `type`. */
    static <T extends Throwable> T raises(Class<T> type, Act act) throws Exception {
        try {
            act.run();
        } catch (Exception error) {
            T found = caused(type, error);
            if (found != null) {
                return found;
            }
            throw error;
        }
        throw new AssertionError("no " + type.getSimpleName());
    }

    private static <T extends Throwable> T caused(Class<T> type, Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (type.isInstance(each)) {
                return type.cast(each);
            }
        }
        return null;
    }
}
