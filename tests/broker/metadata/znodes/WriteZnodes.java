import static scala.jdk.javaapi.CollectionConverters.asScala;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import kafka.api.LeaderAndIsr;
import kafka.cluster.EndPoint;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.controller.ReplicaAssignment;
import kafka.zk.BrokerIdZNode;
import kafka.zk.ClusterIdZNode;
import kafka.zk.ConfigEntityChangeNotificationSequenceZNode;
import kafka.zk.ConfigEntityZNode;
import kafka.zk.ControllerEpochZNode;
import kafka.zk.ControllerZNode;
import kafka.zk.FeatureZNode;
import kafka.zk.FeatureZNodeStatus;
import kafka.zk.IsrChangeNotificationSequenceZNode;
import kafka.zk.LogDirEventNotificationSequenceZNode;
import kafka.zk.PreferredReplicaElectionZNode;
import kafka.zk.ProducerIdBlockZNode;
import kafka.zk.ReassignPartitionsZNode;
import kafka.zk.TopicZNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.Features;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.common.ProducerIdsBlock;
import scala.Option;

/** Writes a line for each node: a name, a tab, and the data that Apache Kafka's classes make. */
public class WriteZnodes {
    private static final Uuid TOPIC_ID = Uuid.fromString("AAECAwQFBgcICQoLDA0ODw");

    private static void line(String name, byte[] data) throws Exception {
        System.out.println(name + "\t" + new String(data, "UTF-8"));
    }

    private static scala.collection.immutable.Seq<Object> ids(int... ids) {
        List<Object> found = new ArrayList<>();
        for (int id : ids) found.add(id);
        return asScala(found).toSeq();
    }

    private static void brokers() throws Exception {
        EndPoint plain = new EndPoint("host", 9092, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT);
        EndPoint tls = new EndPoint("::1", 9093, new ListenerName("CLIENT"), SecurityProtocol.SASL_SSL);
        for (int version = 2; version <= 5; version++) {
            line("broker-" + version, BrokerIdZNode.encode(version, "host", 9092,
                asScala(version < 4 ? List.of(plain) : List.of(plain, tls)).toSeq(), -1, Option.apply("r1"),
                Features.emptySupportedFeatures()));
        }
        line("broker-tls", BrokerIdZNode.encode(5, null, -1, asScala(List.of(tls)).toSeq(), -1, Option.empty(),
            Features.emptySupportedFeatures()));
    }

    private static void topics() throws Exception {
        Map<TopicPartition, ReplicaAssignment> replicas = new LinkedHashMap<>();
        replicas.put(new TopicPartition("t", 0), new ReplicaAssignment(ids(1, 2), ids(), ids()));
        replicas.put(new TopicPartition("t", 1), new ReplicaAssignment(ids(2, 3, 1), ids(3), ids(1)));
        line("topic", TopicZNode.encode(Option.apply(TOPIC_ID), asScala(replicas)));
        line("topic-without-id", TopicZNode.encode(Option.empty(), asScala(replicas)));
        for (LeaderRecoveryState recovery : LeaderRecoveryState.values()) {
            LeaderAndIsr state = LeaderAndIsr.apply(2, 7, asScala(List.<Object>of(2, 1)).toList(), recovery, 5);
            line("state-" + recovery.name().toLowerCase(),
                kafka.zk.TopicPartitionStateZNode.encode(new LeaderIsrAndControllerEpoch(state, 4)));
        }
    }

    private static void notices() throws Exception {
        Set<TopicPartition> partitions = new LinkedHashSet<>(List.of(new TopicPartition("t", 3)));
        line("config-change", ConfigEntityChangeNotificationSequenceZNode.encode("users/a%20b/clients/c"));
        line("isr-change", IsrChangeNotificationSequenceZNode.encode(asScala(partitions)));
        line("log-dir-event", LogDirEventNotificationSequenceZNode.encode(6));
        line("preferred-election", PreferredReplicaElectionZNode.encode(asScala(partitions).toSet()));
        Map<TopicPartition, scala.collection.Seq<Object>> wanted = new LinkedHashMap<>();
        wanted.put(new TopicPartition("t", 3), ids(4, 5));
        line("reassignment", ReassignPartitionsZNode.encode(asScala(wanted)));
    }

    private static void others() throws Exception {
        line("controller", ControllerZNode.encode(3, 1700000000000L, -1));
        line("controller-epoch", ControllerEpochZNode.encode(12));
        Properties config = new Properties();
        config.setProperty("retention.ms", "1000");
        line("config", ConfigEntityZNode.encode(config));
        line("cluster-id", ClusterIdZNode.toJson("AAECAwQFBgcICQoLDA0ODw"));
        line("producer-ids", ProducerIdBlockZNode.generateProducerIdBlockJson(new ProducerIdsBlock(2, 3000, 1000)));
        Map<String, Object> levels = new LinkedHashMap<>();
        levels.put("f", (short) 3);
        @SuppressWarnings({"unchecked", "rawtypes"})
        scala.collection.immutable.Map<String, Object> features =
            scala.collection.immutable.Map.from((scala.collection.Map) asScala(levels));
        line("feature-1", FeatureZNode.encode(new FeatureZNode(1, FeatureZNodeStatus.Enabled$.MODULE$, features)));
        line("feature-2", FeatureZNode.encode(new FeatureZNode(2, FeatureZNodeStatus.Disabled$.MODULE$, features)));
        for (String name : List.of("plain-name_1.x", "a b", "*", "Zoë/ü", "a+b~c%", "<default>"))
            line("sanitized " + name, Sanitizer.sanitize(name).getBytes("UTF-8"));
    }

    public static void main(String[] args) throws Exception {
        brokers();
        topics();
        notices();
        others();
    }
}
