import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A ResourceManager and NodeManagers in one JVM, on ports that the system chooses, in the working directory.
 * Arguments: directory, NodeManagers, key=value... The directory `conf` has the configuration for clients.
 */
public class MiniYarn {
    public static void main(String[] args) {
        try {
            run(args);
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        int nodes = Integer.parseInt(args[1]);
        YarnConfiguration conf = new YarnConfiguration();
        conf.set("fs.defaultFS", "file:///");
        conf.set("yarn.scheduler.minimum-allocation-mb", "64");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
        conf.set("yarn.nodemanager.vmem-check-enabled", "false");
        // A machine's disk may be nearly full.
        conf.set("yarn.nodemanager.disk-health-checker.enable", "false");
        conf.set("yarn.nodemanager.delete.debug-delay-sec", "3600");
        conf.set("yarn.app.mapreduce.am.staging-dir", directory.resolve("staging").toString());
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.set(pair[0], pair[1]);
        }
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", nodes, 1, 1);
        cluster.init(conf);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60000)) {
            throw new IllegalStateException("NodeManagers did not register");
        }
        Path written = directory.resolve("conf.tmp");
        Files.createDirectories(written);
        try (OutputStream out = Files.newOutputStream(written.resolve("yarn-site.xml"))) {
            new Configuration(cluster.getConfig()).writeXml(out);
        }
        Files.writeString(
            written.resolve("core-site.xml"),
            "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>\n");
        Files.move(written, directory.resolve("conf"));
        Thread.currentThread().join();
    }
}
