import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.MirrorUtils;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;
import org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter;

/** What MirrorMaker 2's own classes make of records and clusters: `golden`, or BOOTSTRAP ALIAS GROUP. */
public class Mirror2 {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("golden")) {
            golden();
            return;
        }
        Map<String, Object> client = Map.of("bootstrap.servers", args[0]);
        Duration patience = Duration.ofSeconds(30);
        System.out.println("offsets " + RemoteClusterUtils.translateOffsets(client, args[1], args[2], patience)
            .entrySet().stream().collect(TreeMap::new,
                (all, each) -> all.put(each.getKey().toString(), each.getValue().offset()), TreeMap::putAll));
        System.out.println("upstream " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(client)));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(client, args[1]));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(client)));
        System.out.println("heartbeats " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(client)));
    }

    private static void golden() throws Exception {
        print(new OffsetSync(new TopicPartition("wörds", 3), 1234567890123L, 42), new OffsetSyncFormatter());
        print(new Checkpoint("readers", new TopicPartition("A.words", 1), 300, 301, "nöte"), new CheckpointFormatter());
        print(new Heartbeat("A", "B", 1700000000123L), new HeartbeatFormatter());
        position();
    }

    /** Prints a position in the source as Kafka Connect stores it for MirrorMaker 2. */
    private static void position() throws Exception {
        Method wrap = MirrorUtils.class.getDeclaredMethod("wrapPartition", TopicPartition.class, String.class);
        wrap.setAccessible(true);
        Object partition = wrap.invoke(null, new TopicPartition("words", 2), "A");
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "false"), true);
        byte[] key = json.fromConnectData("t", null, List.of("MirrorSourceConnector", partition));
        byte[] value = json.fromConnectData("t", null, MirrorUtils.wrapOffset(123));
        System.out.println(new String(key) + " " + new String(value));
    }

    /** Prints key and value, and what the formatter of the console consumer says of them. */
    private static void print(Object record, MessageFormatter formatter) throws Exception {
        byte[] key = bytes(record, "serializeKey");
        byte[] value = record instanceof OffsetSync ? bytes(record, "serializeValue") : bytes(record, (short) 0);
        System.out.println(HexFormat.of().formatHex(key) + " " + HexFormat.of().formatHex(value));
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        formatter.writeTo(new ConsumerRecord<>("t", 0, 0, key, value), new PrintStream(said));
        if (!said.toString().contains(record.toString())) {
            throw new AssertionError(said + " for " + record);
        }
    }

    private static byte[] bytes(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return array((ByteBuffer) method.invoke(record));
    }

    private static byte[] bytes(Object record, short version) throws Exception {
        Method method = record.getClass().getDeclaredMethod("serializeValue", short.class);
        method.setAccessible(true);
        return array((ByteBuffer) method.invoke(record, version));
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.get(found);
        return found;
    }
}
