import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** Producers and consumers of one partition: codecs, offsets, positions, and offsets that an administrator changes. */
class Offsets {
    static void add(Map<String, Conformance.Check> checks) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            checks.put("records come back as they were sent: " + codec, kafka -> roundTrip(kafka, codec));
        }
        checks.put("a record that is too large is refused", Offsets::tooLarge);
        checks.put("committed offsets keep their metadata", Offsets::commit);
        checks.put("consumers seek, pause and find offsets by time", Offsets::seek);
        checks.put("an administrator alters and deletes offsets of a group", Offsets::administer);
    }

    private static void roundTrip(Kafka kafka, String codec) throws Exception {
        String topic = kafka.topic(1);
        Map<String, Object> settings = Map.of("compression.type", codec, "linger.ms", 20, "batch.size", 20_000);
        int count = 5000;
        List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = kafka.producer(settings)) {
            for (int each = 0; each < count; each++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, 0, 1_000L + each, "k" + each, topic + " " + each);
                record.headers().add("number", String.valueOf(each).getBytes());
                sent.add(producer.send(record));
            }
        }
        for (int each = 0; each < count; each++) {
            Conformance.equal((long) each, sent.get(each).get().offset());
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = kafka.consumer(Map.of("max.partition.fetch.bytes", 30_000))) {
            consumer.assign(List.of(partition));
            int[] next = {0};
            Kafka.waitFor("all records", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> {
                    Conformance.equal((long) next[0], record.offset());
                    Conformance.equal(1_000L + next[0], record.timestamp());
                    Conformance.equal("k" + next[0], record.key());
                    Conformance.equal(topic + " " + next[0], record.value());
                    Conformance.equal(String.valueOf(next[0]), new String(record.headers().lastHeader("number").value()));
                    next[0]++;
                });
                return next[0] == count;
            });
        }
    }

    private static void tooLarge(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        Map<String, Object> settings = Map.of("max.request.size", 10_000_000, "compression.type", "none");
        try (KafkaProducer<String, String> producer = kafka.producer(settings)) {
            String large = "x".repeat(2_000_000);
            Conformance.raises(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic, large)).get());
            Conformance.equal(0L, producer.send(new ProducerRecord<>(topic, "small")).get().offset());
        }
    }

    private static void commit(Kafka kafka) throws Exception {
        String topic = kafka.topic(2);
        String group = Kafka.name("group");
        kafka.write(topic, 0, 20);
        TopicPartition one = new TopicPartition(topic, 0);
        TopicPartition two = new TopicPartition(topic, 1);
        Map<String, Object> settings = Map.of("group.id", group, "enable.auto.commit", false);
        try (KafkaConsumer<String, String> consumer = kafka.consumer(settings)) {
            consumer.assign(List.of(one, two));
            consumer.commitSync(Map.of(one, new OffsetAndMetadata(4, Optional.of(0), "why")));
        }
        try (KafkaConsumer<String, String> consumer = kafka.consumer(settings)) {
            Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(Set.of(one, two));
            Conformance.equal(4L, found.get(one).offset());
            Conformance.equal("why", found.get(one).metadata());
            Conformance.check(found.get(two) == null, found);
            consumer.assign(List.of(one, two));
            Conformance.equal(4L, consumer.position(one));
            Conformance.equal(0L, consumer.position(two));
        }
    }

    private static void seek(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = kafka.producer(Map.of())) {
            for (int each = 0; each < 10; each++) {
                producer.send(new ProducerRecord<>(topic, 0, 100L * each, null, "value " + each));
            }
        }
        try (KafkaConsumer<String, String> consumer = kafka.consumer(Map.of("max.poll.records", 1))) {
            consumer.assign(List.of(partition));
            Conformance.equal(0L, consumer.beginningOffsets(List.of(partition)).get(partition));
            Conformance.equal(10L, consumer.endOffsets(List.of(partition)).get(partition));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, 301L)).get(partition);
            Conformance.equal(4L, found.offset());
            Conformance.equal(400L, found.timestamp());
            Conformance.check(consumer.offsetsForTimes(Map.of(partition, 901L)).get(partition) == null, "after the end");
            consumer.seek(partition, 7);
            List<Long> offsets = new ArrayList<>();
            Kafka.waitFor("a record after the seek", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> offsets.add(record.offset()));
                return !offsets.isEmpty();
            });
            Conformance.equal(7L, offsets.get(0));
            consumer.pause(List.of(partition));
            Conformance.check(consumer.poll(Duration.ofMillis(500)).isEmpty(), "a record of a paused partition");
            consumer.resume(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            Conformance.equal(10L, consumer.position(partition));
        }
    }

    private static void administer(Kafka kafka) throws Exception {
        String topic = kafka.topic(1);
        String group = Kafka.name("group");
        TopicPartition partition = new TopicPartition(topic, 0);
        kafka.write(topic, 0, 10);
        kafka.admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(6))).all().get();
        Conformance.equal(
            6L, kafka.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset());
        Map<String, Object> settings = new HashMap<>(Map.of("group.id", group));
        try (KafkaConsumer<String, String> consumer = kafka.consumer(settings)) {
            consumer.assign(List.of(partition));
            Conformance.equal(6L, consumer.position(partition));
        }
        kafka.admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
        Conformance.equal(
            Map.of(), kafka.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }
}
