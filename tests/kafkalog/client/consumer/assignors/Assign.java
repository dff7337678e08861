// Decisions of Apache Kafka's assignors: java -cp <kafka jars> Assign.java. One JSON object a line in, one a line out.
// {"assignor": CLASS, "topics": {NAME: [[RACK, ...] for each partition]}, "members": [[ID, INSTANCE or null, HEX], ...]}
//   gives {ID: assignment as hex}; HEX is the member's subscription.
// {"assignor": CLASS, "had": [[TOPIC, PARTITION], ...], "generation": N, "topics_wanted": [...], "rack": R or null,
//  "version": V} gives {"user_data": hex or null, "subscription": hex}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assign {
    static final ObjectMapper JSON = new ObjectMapper();

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(rack.asText(), r -> new Node(nodes.size(), "h", 1, r)));
                }
                if (replicas.isEmpty()) {
                    replicas.add(nodes.computeIfAbsent("", r -> new Node(nodes.size(), "h", 1)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, array[0], array, array));
            }
        });
        return new Cluster("c", nodes.values(), partitions, new HashSet<>(), new HashSet<>());
    }

    static ObjectNode assign(ConsumerPartitionAssignor assignor, JsonNode line) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : line.get("members")) {
            byte[] bytes = HexFormat.of().parseHex(member.get(2).asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes));
            subscription.setGroupInstanceId(
                member.get(1).isNull() ? Optional.empty() : Optional.of(member.get(1).asText()));
            subscriptions.put(member.get(0).asText(), subscription);
        }
        ObjectNode out = JSON.createObjectNode();
        assignor.assign(cluster(line.get("topics")), new GroupSubscription(subscriptions)).groupAssignment()
            .forEach((member, assignment) -> out.put(member, hex(ConsumerProtocol.serializeAssignment(assignment))));
        return out;
    }

    static ObjectNode subscribe(ConsumerPartitionAssignor assignor, JsonNode line) {
        List<TopicPartition> had = new ArrayList<>();
        line.get("had").forEach(tp -> had.add(new TopicPartition(tp.get(0).asText(), tp.get(1).asInt())));
        int generation = line.get("generation").asInt();
        if (generation >= 0) {
            assignor.onAssignment(
                new Assignment(had), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        }
        Set<String> topics = new LinkedHashSet<>();
        line.get("topics_wanted").forEach(topic -> topics.add(topic.asText()));
        ByteBuffer data = assignor.subscriptionUserData(topics);
        Optional<String> rack = line.get("rack").isNull() ? Optional.empty() : Optional.of(line.get("rack").asText());
        Subscription subscription = new Subscription(new ArrayList<>(topics), data, had, generation, rack);
        ObjectNode out = JSON.createObjectNode();
        out.put("user_data", hex(data));
        short version = (short) line.get("version").asInt();
        out.put("subscription", hex(ConsumerProtocol.serializeSubscription(subscription, version)));
        return out;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String text = in.readLine(); text != null; text = in.readLine()) {
            JsonNode line = JSON.readTree(text);
            Class<?> found = Class.forName("org.apache.kafka.clients.consumer." + line.get("assignor").asText());
            ConsumerPartitionAssignor assignor =
                (ConsumerPartitionAssignor) found.getDeclaredConstructor().newInstance();
            ObjectNode out;
            try {
                out = line.has("members") ? assign(assignor, line) : subscribe(assignor, line);
            } catch (RuntimeException e) {
                out = JSON.createObjectNode();
                out.put("!", String.valueOf(e));
            }
            System.out.println(JSON.writeValueAsString(out));
            System.out.flush();
        }
    }
}
