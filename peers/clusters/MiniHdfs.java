import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.namenode.NameNodeRpcServer;
import org.apache.hadoop.metrics2.annotation.Metrics;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** A NameNode and a DataNode in one JVM, on ports that the system chooses. Arguments: directory, key=value... */
public class MiniHdfs {
    private static final int COMPLETE_TRIES = 100;
    private static final long COMPLETE_PAUSE_MS = 2;

    /**
     * Waits a moment for the DataNode's report before it tells a client that its file is not complete yet.
     *
     * The DataNode acknowledges a block to the client when it has sent its report to the NameNode, so the client's
     * request often comes first. Clients would ask again after half a second, for most of the files that they close.
     */
    @Metrics(context = "dfs")
    private static class PatientNameNode extends NameNode {
        PatientNameNode(Configuration conf) throws IOException {
            super(conf);
        }

        @Override
        protected NameNodeRpcServer createRpcServer(Configuration conf) throws IOException {
            return new NameNodeRpcServer(conf, this) {
                @Override
                public boolean complete(String path, String client, ExtendedBlock last, long file) throws IOException {
                    for (int left = COMPLETE_TRIES; left > 0; left--) {
                        if (super.complete(path, client, last, file)) {
                            return true;
                        }
                        try {
                            Thread.sleep(COMPLETE_PAUSE_MS);
                        } catch (InterruptedException ended) {
                            Thread.currentThread().interrupt();
                            break;
                        }
                    }
                    return false;
                }
            };
        }
    }

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
        DefaultMetricsSystem.initialize("NameNode");
        NameNode name = new PatientNameNode(conf);
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
