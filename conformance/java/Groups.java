import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;

/** Consumer groups: every assignor, the cooperative protocol, static members, and group.protocol=consumer. */
class Groups {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";

    static void add(Map<String, Conformance.Check> checks) {
        for (String assignor : List.of("Range", "RoundRobin", "Sticky", "CooperativeSticky")) {
            checks.put("members share the partitions: " + assignor, kafka -> share(kafka, classic(assignor)));
        }
        for (String assignor : List.of("uniform", "range")) {
            Map<String, Object> settings = consumerProtocol(Map.of("group.remote.assignor", assignor));
            checks.put("members share the partitions: group.protocol=consumer, " + assignor, kafka -> share(kafka, settings));
        }
        checks.put("cooperative members keep what stays theirs", kafka -> keep(kafka, classic("CooperativeSticky")));
        checks.put("members of group.protocol=consumer keep what stays theirs", kafka -> keep(kafka, consumerProtocol(Map.of())));
        checks.put("a static member comes back without a rebalance", kafka -> comeBack(kafka, classic("Range")));
        checks.put("a static member of group.protocol=consumer comes back", kafka -> comeBack(kafka, consumerProtocol(Map.of())));
        checks.put("a second static member fences the first", Groups::fence);
        checks.put("a second static member of group.protocol=consumer is refused", Groups::refuse);
        checks.put("a member that does not poll loses its partitions", Groups::stall);
        checks.put("a new partition is assigned", Groups::grow);
        checks.put("a new topic of a pattern is assigned", Groups::pattern);
        checks.put("a classic group becomes one of group.protocol=consumer", Groups::upgrade);
        checks.put("groups are listed, described and deleted", Groups::administer);
    }

    private static Map<String, Object> classic(String assignor) {
        return Map.of("partition.assignment.strategy", PACKAGE + assignor + "Assignor");
    }

    private static Map<String, Object> consumerProtocol(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("group.protocol", "consumer");
        return all;
    }

    /** Whether the members have each partition of the topics once. */
    private static boolean divided(Kafka kafka, List<Member> members, String... topics) throws Exception {
        Set<TopicPartition> wanted = new HashSet<>();
        for (String topic : topics) {
            wanted.addAll(kafka.partitions(topic));
        }
        for (Member member : members) {
            if (member.error != null) {
                throw new AssertionError("a member failed: " + member.error, member.error);
            }
        }
        List<TopicPartition> found = members.stream().flatMap(each -> each.assignment.stream()).collect(Collectors.toList());
        return found.size() == wanted.size() && new HashSet<>(found).equals(wanted);
    }

    private static void waitDivided(Kafka kafka, List<Member> members, int each, String... topics) throws Exception {
        Kafka.waitFor(() -> "the partitions are divided among " + members, () ->
            divided(kafka, members, topics) && members.stream().allMatch(member -> member.assignment.size() == each));
    }

    private static void share(Kafka kafka, Map<String, Object> settings) throws Exception {
        String one = kafka.topic(6);
        String two = kafka.topic(6);
        String group = Kafka.name("group");
        kafka.write(one, 0, 60);
        kafka.write(two, 0, 60);
        List<Member> members = new ArrayList<>();
        try {
            for (int each = 0; each < 3; each++) {
                members.add(new Member(kafka, group, List.of(one, two), settings));
            }
            waitDivided(kafka, members, 4, one, two);
            Member gone = members.remove(0);
            gone.close();
            waitDivided(kafka, members, 6, one, two);
            kafka.write(one, 60, 120);
            kafka.write(two, 60, 120);
            Set<String> wanted = new HashSet<>(Kafka.values(one, 0, 120));
            wanted.addAll(Kafka.values(two, 0, 120));
            Set<String> missing = new HashSet<>(wanted);
            Kafka.waitFor(() -> "the records " + missing + " are consumed by " + members, () -> {
                missing.removeAll(gone.seen);
                members.forEach(member -> missing.removeAll(member.seen));
                return missing.isEmpty();
            });
        } finally {
            for (Member member : members) {
                member.close();
            }
        }
    }

    private static void keep(Kafka kafka, Map<String, Object> settings) throws Exception {
        String topic = kafka.topic(6);
        String group = Kafka.name("group");
        try (Member first = new Member(kafka, group, List.of(topic), settings)) {
            waitDivided(kafka, List.of(first), 6, topic);
            try (Member second = new Member(kafka, group, List.of(topic), settings)) {
                waitDivided(kafka, List.of(first, second), 3, topic);
                Conformance.equal(second.assignment, new HashSet<>(first.revoked));
                Conformance.equal(3, first.revoked.size());
            }
        }
    }

    private static Map<String, Object> instance(Map<String, Object> settings, String id) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, id);
        return all;
    }

    private static void comeBack(Kafka kafka, Map<String, Object> settings) throws Exception {
        String topic = kafka.topic(4);
        String group = Kafka.name("group");
        try (Member stays = new Member(kafka, group, List.of(topic), instance(settings, "stays"))) {
            Member goes = new Member(kafka, group, List.of(topic), instance(settings, "goes"));
            Set<TopicPartition> had;
            try {
                waitDivided(kafka, List.of(stays, goes), 2, topic);
                had = goes.assignment;
            } finally {
                goes.close();
            }
            int revoked = stays.revoked.size();
            try (Member back = new Member(kafka, group, List.of(topic), instance(settings, "goes"))) {
                Kafka.waitFor("it has its partitions again", () -> back.assignment.equals(had));
                kafka.write(topic, 0, 40);
                Kafka.waitFor("both consume", () -> back.seen.size() == 20 && stays.seen.size() == 20);
                Conformance.equal(revoked, stays.revoked.size());
            }
        }
    }

    private static void fence(Kafka kafka) throws Exception {
        String topic = kafka.topic(2);
        String group = Kafka.name("group");
        Map<String, Object> settings = instance(classic("Range"), "same");
        try (Member first = new Member(kafka, group, List.of(topic), settings)) {
            waitDivided(kafka, List.of(first), 2, topic);
            try (Member second = new Member(kafka, group, List.of(topic), settings)) {
                Kafka.waitFor("the first is fenced", () -> first.error instanceof FencedInstanceIdException);
                waitDivided(kafka, List.of(second), 2, topic);
            }
        }
    }

    private static void refuse(Kafka kafka) throws Exception {
        String topic = kafka.topic(2);
        String group = Kafka.name("group");
        Map<String, Object> settings = instance(consumerProtocol(Map.of()), "same");
        try (Member first = new Member(kafka, group, List.of(topic), settings)) {
            waitDivided(kafka, List.of(first), 2, topic);
            try (Member second = new Member(kafka, group, List.of(topic), settings)) {
                Kafka.waitFor("the second is refused", () -> second.error instanceof UnreleasedInstanceIdException);
                waitDivided(kafka, List.of(first), 2, topic);
            }
        }
    }

    private static void stall(Kafka kafka) throws Exception {
        String topic = kafka.topic(2);
        String group = Kafka.name("group");
        Map<String, Object> settings = new HashMap<>(classic("Range"));
        settings.put("max.poll.interval.ms", 6000);
        try (Member one = new Member(kafka, group, List.of(topic), settings);
                Member two = new Member(kafka, group, List.of(topic), settings)) {
            waitDivided(kafka, List.of(one, two), 1, topic);
            one.stalled = true;
            Kafka.waitFor("the other has all", () -> two.assignment.size() == 2);
            one.stalled = false;
            waitDivided(kafka, List.of(one, two), 1, topic);
        }
    }

    private static void grow(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        Map<String, Object> settings = Map.of("metadata.max.age.ms", 1000);
        try (Member member = new Member(kafka, Kafka.name("group"), List.of(topic), settings)) {
            waitDivided(kafka, List.of(member), 1, topic);
            kafka.admin.createPartitions(Map.of(topic, org.apache.kafka.clients.admin.NewPartitions.increaseTo(3))).all().get();
            waitDivided(kafka, List.of(member), 3, topic);
        }
    }

    private static void pattern(Kafka kafka) throws Exception {
        String prefix = Kafka.name("java-pattern");
        Map<String, Object> settings = Map.of("metadata.max.age.ms", 1000, "group.id", Kafka.name("group"));
        try (org.apache.kafka.clients.consumer.KafkaConsumer<String, String> consumer = kafka.consumer(settings)) {
            consumer.subscribe(java.util.regex.Pattern.compile(prefix + ".*"));
            Set<String> found = new HashSet<>();
            for (String topic : List.of(prefix + "-a", prefix + "-b")) {
                kafka.admin.createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(topic, 1, (short) 1))).all().get();
                kafka.write(topic, 0, 1);
                Kafka.waitFor("a record of " + topic, () -> {
                    consumer.poll(java.time.Duration.ofMillis(100)).forEach(record -> found.add(record.topic()));
                    return found.contains(topic);
                });
            }
        }
    }

    private static void upgrade(Kafka kafka) throws Exception {
        String topic = kafka.topic(4);
        String group = Kafka.name("group");
        try (Member old = new Member(kafka, group, List.of(topic), classic("CooperativeSticky"))) {
            waitDivided(kafka, List.of(old), 4, topic);
            try (Member modern = new Member(kafka, group, List.of(topic), consumerProtocol(Map.of()))) {
                waitDivided(kafka, List.of(old, modern), 2, topic);
                kafka.write(topic, 0, 40);
                Kafka.waitFor("both consume", () -> old.seen.size() == 20 && modern.seen.size() == 20);
            }
            waitDivided(kafka, List.of(old), 4, topic);
        }
    }

    @SuppressWarnings("deprecation")
    private static void administer(Kafka kafka) throws Exception {
        String topic = kafka.topic(2);
        String group = Kafka.name("group");
        try (Member member = new Member(kafka, group, List.of(topic), instance(classic("Range"), "one"))) {
            waitDivided(kafka, List.of(member), 2, topic);
            Conformance.check(
                kafka.admin.listConsumerGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)), "not listed");
            ConsumerGroupDescription told = kafka.admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            Conformance.equal(ConsumerGroupState.STABLE, told.state());
            Conformance.equal("range", told.partitionAssignor());
            Conformance.equal(1, told.members().size());
            Conformance.equal("one", told.members().iterator().next().groupInstanceId().get());
            Conformance.equal(member.assignment, told.members().iterator().next().assignment().topicPartitions());
            Conformance.raises(
                org.apache.kafka.common.errors.GroupNotEmptyException.class,
                () -> kafka.admin.deleteConsumerGroups(List.of(group)).all().get());
        }
        kafka.admin.removeMembersFromConsumerGroup(
            group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
        kafka.admin.deleteConsumerGroups(List.of(group)).all().get();
        Conformance.check(
            kafka.admin.listConsumerGroups().all().get().stream().noneMatch(each -> each.groupId().equals(group)), "still listed");
    }
}
