import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Transactions: atomic, isolated, fenced, and exactly once from topic to topic. */
class Transactions {
    static void add(Map<String, Conformance.Check> checks) {
        checks.put("a committed transaction is seen as a whole", Transactions::commit);
        checks.put("an aborted transaction is never seen by read_committed", Transactions::abort);
        checks.put("an open transaction holds back what comes after it", Transactions::holdBack);
        checks.put("a new producer of an id aborts and fences the old", Transactions::fence);
        checks.put("an administrator fences a producer", Transactions::fenceProducers);
        checks.put("a transaction that takes too long is aborted", Transactions::timeOut);
        checks.put("consume, transform, produce: exactly once despite aborts", kafka -> copy(kafka, Map.of()));
        checks.put("consume, transform, produce: exactly once with group.protocol=consumer",
            kafka -> copy(kafka, Map.of("group.protocol", "consumer")));
        checks.put("offsets of an aborted transaction are not committed", Transactions::abortOffsets);
        checks.put("offsets of a transaction in flight are waited for", Transactions::unstableOffsets);
        checks.put("a member that has left its group commits no offsets", Transactions::staleMember);
        checks.put("transactions are listed and described", Transactions::describe);
    }

    private static void send(KafkaProducer<String, String> producer, String topic, int from, int to) {
        for (String value : Kafka.values(topic, from, to)) {
            producer.send(new ProducerRecord<>(topic, value));
        }
    }

    private static void commit(Kafka kafka) throws Exception {
        String one = kafka.topic(1);
        String two = kafka.topic(1);
        try (KafkaProducer<String, String> producer = kafka.transactional(Kafka.name("id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, one, 0, 10);
            send(producer, two, 0, 10);
            producer.flush();
            Conformance.equal(List.of(), kafka.read(one, "read_committed"));
            Conformance.equal(Kafka.values(one, 0, 10), kafka.read(one, "read_uncommitted"));
            producer.commitTransaction();
        }
        Conformance.equal(Kafka.values(one, 0, 10), kafka.read(one, "read_committed"));
        Conformance.equal(Kafka.values(two, 0, 10), kafka.read(two, "read_committed"));
    }

    private static void abort(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        try (KafkaProducer<String, String> producer = kafka.transactional(Kafka.name("id"))) {
            producer.initTransactions();
            for (int each = 0; each < 6; each++) {
                producer.beginTransaction();
                send(producer, topic, each * 5, each * 5 + 5);
                if (each % 2 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        List<String> wanted = new ArrayList<>(Kafka.values(topic, 5, 10));
        wanted.addAll(Kafka.values(topic, 15, 20));
        wanted.addAll(Kafka.values(topic, 25, 30));
        Conformance.equal(wanted, kafka.read(topic, "read_committed"));
        Conformance.equal(Kafka.values(topic, 0, 30), kafka.read(topic, "read_uncommitted"));
    }

    private static void holdBack(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        try (KafkaProducer<String, String> producer = kafka.transactional(Kafka.name("id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 0, 1);
            producer.flush();
            kafka.write(topic, 1, 3);
            Conformance.equal(List.of(), kafka.read(topic, "read_committed"));
            producer.abortTransaction();
        }
        Conformance.equal(Kafka.values(topic, 1, 3), kafka.read(topic, "read_committed"));
    }

    private static void fence(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        String id = Kafka.name("id");
        try (KafkaProducer<String, String> old = kafka.transactional(id);
                KafkaProducer<String, String> young = kafka.transactional(id)) {
            old.initTransactions();
            old.beginTransaction();
            send(old, topic, 0, 5);
            old.flush();
            young.initTransactions();
            refused(old::commitTransaction);
            young.beginTransaction();
            send(young, topic, 5, 10);
            young.commitTransaction();
            refused(() -> {
                old.beginTransaction();
                old.send(new ProducerRecord<>(topic, "zombie")).get();
            });
        }
        Conformance.equal(Kafka.values(topic, 5, 10), kafka.read(topic, "read_committed"));
    }

    /** Fenced: which of its exceptions tells it depends on what the producer asked for last. */
    private static void refused(Conformance.Act act) throws Exception {
        KafkaException told = Conformance.raises(KafkaException.class, act);
        boolean fenced = false;
        for (Throwable each = told; each != null; each = each.getCause()) {
            String name = each.getClass().getSimpleName();
            fenced |= name.equals("ProducerFencedException") || name.equals("InvalidProducerEpochException");
        }
        Conformance.check(fenced, told);
    }

    private static void fenceProducers(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        String id = Kafka.name("id");
        try (KafkaProducer<String, String> producer = kafka.transactional(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 0, 5);
            producer.flush();
            kafka.admin.fenceProducers(List.of(id)).all().get();
            refused(producer::commitTransaction);
        }
        Conformance.equal(List.of(), kafka.read(topic, "read_committed"));
    }

    private static void timeOut(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        Map<String, Object> settings = Map.of("transactional.id", Kafka.name("id"), "transaction.timeout.ms", 2000);
        try (KafkaProducer<String, String> producer = kafka.producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 0, 5);
            producer.flush();
            kafka.write(topic, 5, 6);
            Kafka.waitFor("the transaction is aborted", () -> !kafka.read(topic, "read_committed").isEmpty());
            Conformance.raises(KafkaException.class, producer::commitTransaction);
        }
        Conformance.equal(Kafka.values(topic, 5, 6), kafka.read(topic, "read_committed"));
    }

    private static Map<TopicPartition, OffsetAndMetadata> after(ConsumerRecords<String, String> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<String, String>> found = records.records(partition);
            offsets.put(partition, new OffsetAndMetadata(found.get(found.size() - 1).offset() + 1));
        }
        return offsets;
    }

    private static void copy(Kafka kafka, Map<String, Object> protocol) throws Exception {
        String source = kafka.topic(2);
        String target = kafka.topic(2);
        int count = 400;
        kafka.write(source, 0, count);
        Map<String, Object> settings = new HashMap<>(protocol);
        settings.putAll(Map.of(
            "group.id", Kafka.name("group"), "enable.auto.commit", false, "isolation.level", "read_committed", "max.poll.records", 17));
        String id = Kafka.name("id");
        int copied = 0;
        // A copier that ends, in the middle of a transaction or between two, and the next one in its place.
        for (int life = 0; copied < count; life++) {
            try (KafkaConsumer<String, String> consumer = kafka.consumer(settings);
                    KafkaProducer<String, String> producer = kafka.transactional(id)) {
                producer.initTransactions();
                consumer.subscribe(List.of(source));
                copied += copySome(consumer, producer, target, count - copied, life);
            }
        }
        Set<String> wanted = new HashSet<>();
        Kafka.values(source, 0, count).forEach(value -> wanted.add("copy of " + value));
        List<String> found = kafka.read(target, "read_committed");
        Conformance.equal(wanted, new HashSet<>(found));
        Conformance.equal(count, found.size());
    }

    private static int copySome(
            KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer, String target, int left, int life) {
        int copied = 0;
        long end = System.nanoTime() + Kafka.DEADLINE_MS * 1_000_000;
        for (int turn = 1; copied < left; turn++) {
            Conformance.check(System.nanoTime() < end, "nothing is consumed");
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            records.forEach(record -> producer.send(new ProducerRecord<>(target, "copy of " + record.value())));
            producer.sendOffsetsToTransaction(after(records), consumer.groupMetadata());
            if (life < 4 && turn > 3) {
                if (life % 2 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                }
                return copied;
            }
            producer.commitTransaction();
            copied += records.count();
        }
        return copied;
    }

    private static void abortOffsets(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        String group = Kafka.name("group");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = kafka.transactional(Kafka.name("id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(5)), new ConsumerGroupMetadata(group));
            producer.abortTransaction();
            Conformance.equal(Map.of(), kafka.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7)), new ConsumerGroupMetadata(group));
            producer.commitTransaction();
        }
        try (KafkaConsumer<String, String> consumer = kafka.consumer(Map.of("group.id", group))) {
            Conformance.equal(7L, consumer.committed(Set.of(partition)).get(partition).offset());
        }
    }

    private static void unstableOffsets(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        String group = Kafka.name("group");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = kafka.transactional(Kafka.name("id"));
                KafkaConsumer<String, String> consumer =
                    kafka.consumer(Map.of("group.id", group, "isolation.level", "read_committed"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(3)), new ConsumerGroupMetadata(group));
            Conformance.raises(
                org.apache.kafka.common.errors.TimeoutException.class,
                () -> consumer.committed(Set.of(partition), Duration.ofSeconds(2)));
            producer.commitTransaction();
            Conformance.equal(3L, consumer.committed(Set.of(partition)).get(partition).offset());
        }
    }

    private static void staleMember(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        kafka.write(topic, 0, 5);
        TopicPartition partition = new TopicPartition(topic, 0);
        ConsumerGroupMetadata[] stale = new ConsumerGroupMetadata[1];
        String group = Kafka.name("group");
        try (KafkaConsumer<String, String> consumer = kafka.consumer(Map.of("group.id", group, "enable.auto.commit", false))) {
            consumer.subscribe(List.of(topic));
            Kafka.waitFor("a record", () -> !consumer.poll(Duration.ofMillis(200)).isEmpty());
            stale[0] = consumer.groupMetadata();
        }
        try (KafkaProducer<String, String> producer = kafka.transactional(Kafka.name("id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            Conformance.raises(
                org.apache.kafka.clients.consumer.CommitFailedException.class,
                () -> producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(5)), stale[0]));
            producer.abortTransaction();
        }
        Conformance.equal(Map.of(), kafka.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    private static void describe(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        String id = Kafka.name("id");
        try (KafkaProducer<String, String> producer = kafka.transactional(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 0, 1);
            producer.flush();
            Conformance.check(
                kafka.admin.listTransactions().all().get().stream()
                    .anyMatch(each -> each.transactionalId().equals(id) && each.state() == TransactionState.ONGOING),
                "not listed");
            TransactionDescription told = kafka.admin.describeTransactions(List.of(id)).description(id).get();
            Conformance.equal(TransactionState.ONGOING, told.state());
            Conformance.equal(Set.of(new TopicPartition(topic, 0)), told.topicPartitions());
            TopicPartition partition = new TopicPartition(topic, 0);
            Conformance.check(
                kafka.admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().stream()
                    .anyMatch(each -> each.producerId() == told.producerId() && each.currentTransactionStartOffset().isPresent()),
                "the producer is not described");
            producer.commitTransaction();
        }
    }
}
