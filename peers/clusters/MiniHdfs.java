import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** A NameNode and a DataNode in one JVM, on ports that the system chooses. Arguments: directory, key=value... */
public class MiniHdfs {
    public static void main(String[] args) {
        try {
            run(args);
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] args) throws Exception {
        // Formatting and running register the same metrics in one process.
        DefaultMetricsSystem.setMiniClusterMode(true);
        Path directory = Path.of(args[0]);
        Configuration conf = new Configuration(true);
        conf.set("fs.defaultFS", "hdfs://127.0.0.1:0");
        conf.set("dfs.namenode.name.dir", directory.resolve("name").toUri().toString());
        conf.set("dfs.datanode.data.dir", directory.resolve("data").toUri().toString());
        conf.set("dfs.namenode.http-address", "127.0.0.1:0");
        conf.set("dfs.datanode.address", "127.0.0.1:0");
        conf.set("dfs.datanode.ipc.address", "127.0.0.1:0");
        conf.set("dfs.datanode.http.address", "127.0.0.1:0");
        conf.set("dfs.datanode.hostname", "127.0.0.1");
        conf.set("dfs.replication", "1");
        conf.set("dfs.namenode.safemode.extension", "0");
        conf.set("dfs.namenode.datanode.registration.ip-hostname-check", "false");
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.set(pair[0], pair[1]);
        }
        boolean fresh = !new File(directory.toFile(), "name/current/VERSION").exists();
        if (fresh) {
            NameNode.format(conf);
        }
        NameNode name = NameNode.createNameNode(new String[0], conf);
        conf.set("fs.defaultFS", "hdfs://127.0.0.1:" + name.getNameNodeAddress().getPort());
        conf.set("dfs.namenode.rpc-address", "127.0.0.1:" + name.getNameNodeAddress().getPort());
        DataNode data = DataNode.createDataNode(new String[0], conf);
        while (!data.isDatanodeFullyStarted() || name.isInSafeMode()) {
            Thread.sleep(20);
        }
        Path ready = directory.resolve("address");
        Path written = directory.resolve("address.tmp");
        Files.writeString(written, "127.0.0.1:" + name.getNameNodeAddress().getPort());
        Files.move(written, ready);
        name.join();
    }
}
