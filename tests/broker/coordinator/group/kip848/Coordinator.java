import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupCurrentMemberAssignmentKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupCurrentMemberAssignmentValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupPartitionMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupPartitionMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMetadataValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicMetadata;

/**
 * Apache Kafka 3.9's own records and assignors. With "records" it writes keys and values of fixed records, in hexadecimal,
 * one a line; with "assign" it reads groups, one a line, and writes their assignments.
 *
 * A group is "assignor|partitions of each topic|member;member;…", a member "id,instance or -,topics,partitions", where
 * topics are numbers and partitions "topic:partition", each separated by blanks. An assignment is "id=partitions;…".
 */
public class Coordinator {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("records")) {
            records();
            return;
        }
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            System.out.println(assign(lines.nextLine().split("\\|", -1)));
        }
    }

    private static Uuid topic(int number) {
        return new Uuid(0, 100 + number);
    }

    private static void write(int type, ApiMessage key, ApiMessage value) {
        HexFormat hex = HexFormat.of();
        System.out.println(hex.formatHex(MessageUtil.toVersionPrefixedBytes((short) type, key)) + " "
            + hex.formatHex(MessageUtil.toVersionPrefixedBytes((short) 0, value)));
    }

    private static void records() {
        write(5, new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("a"),
            new ConsumerGroupMemberMetadataValue().setInstanceId("i").setRackId("r").setClientId("c").setClientHost("/h")
                .setSubscribedTopicNames(List.of("t0", "t1")).setSubscribedTopicRegex("").setRebalanceTimeoutMs(30000)
                .setServerAssignor("range"));
        write(5, new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("b"),
            new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("").setClientHost("")
                .setSubscribedTopicNames(List.of()).setSubscribedTopicRegex("").setServerAssignor(null)
                .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                    .setSessionTimeoutMs(10000).setSupportedProtocols(List.of(
                        new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("p").setMetadata(new byte[] {1, 2})))));
        write(4, new ConsumerGroupPartitionMetadataKey().setGroupId("g"),
            new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
                new ConsumerGroupPartitionMetadataValue.TopicMetadata().setTopicId(topic(0)).setTopicName("t0")
                    .setNumPartitions(3).setPartitionMetadata(List.of(
                        new ConsumerGroupPartitionMetadataValue.PartitionMetadata().setPartition(1)
                            .setRacks(List.of("x", "y")))))));
        write(3, new ConsumerGroupMetadataKey().setGroupId("g"), new ConsumerGroupMetadataValue().setEpoch(7));
        write(7, new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("a"),
            new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(topic(0))
                    .setPartitions(List.of(0, 2)))));
        write(6, new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("g"),
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(7));
        write(8, new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("a"),
            new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(6).setPreviousMemberEpoch(5).setState((byte) 1)
                .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                    .setTopicId(topic(0)).setPartitions(List.of(0))))
                .setPartitionsPendingRevocation(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                    .setTopicId(topic(1)).setPartitions(List.of(1, 2)))));
    }

    private static String assign(String[] group) throws Exception {
        Map<Uuid, TopicMetadata> topics = new HashMap<>();
        String[] counts = group[1].split(" ");
        for (int number = 0; number < counts.length; number++) {
            topics.put(topic(number), new TopicMetadata(
                topic(number), "t" + number, Integer.parseInt(counts[number]), Collections.emptyMap()));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (String text : group[2].split(";")) {
            String[] member = text.split(",", -1);
            Set<Uuid> subscribed = new HashSet<>();
            for (String number : member[2].split(" ")) {
                subscribed.add(topic(Integer.parseInt(number)));
            }
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            for (String partition : member[3].isEmpty() ? new String[0] : member[3].split(" ")) {
                String[] parts = partition.split(":");
                Uuid of = topic(Integer.parseInt(parts[0]));
                int number = Integer.parseInt(parts[1]);
                assigned.computeIfAbsent(of, any -> new HashSet<>()).add(number);
                owners.computeIfAbsent(of, any -> new HashMap<>()).put(number, member[0]);
            }
            members.put(member[0], new MemberSubscriptionAndAssignmentImpl(Optional.empty(),
                member[1].equals("-") ? Optional.empty() : Optional.of(member[1]), subscribed, new Assignment(assigned)));
        }
        ConsumerGroupPartitionAssignor assignor = group[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> result = assignor.assign(
            new GroupSpecImpl(members,
                subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, owners),
            new SubscribedTopicDescriberImpl(topics)).members();
        List<String> out = new ArrayList<>();
        for (String id : new TreeSet<>(members.keySet())) {
            Map<String, String> partitions = new TreeMap<>();
            result.get(id).partitions().forEach((of, numbers) -> {
                for (int number : numbers) {
                    String text = (of.getLeastSignificantBits() - 100) + ":" + number;
                    partitions.put(text, text);
                }
            });
            out.add(id + "=" + String.join(" ", partitions.keySet()));
        }
        return String.join(";", out);
    }
}
