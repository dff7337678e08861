import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The broker that is asked, and what checks do with it. */
class Kafka implements AutoCloseable {
    static final long DEADLINE_MS = 120_000;

    final String bootstrap;
    final Admin admin;

    Kafka(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", (int) DEADLINE_MS));
    }

    static String name(String what) {
        return what + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    String topic(int partitions) throws Exception {
        String topic = name("java-program");
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        return topic;
    }

    KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        all.putAll(settings);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    KafkaProducer<String, String> transactional(String id) {
        return producer(Map.of("transactional.id", id));
    }

    KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        all.put("auto.offset.reset", "earliest");
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** Values from..to-1, spread evenly over the topic's partitions. */
    void write(String topic, int from, int to) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            int partitions = producer.partitionsFor(topic).size();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int each = from; each < to; each++) {
                sent.add(producer.send(new ProducerRecord<>(topic, each % partitions, null, topic + " " + each)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    static List<String> values(String topic, int from, int to) {
        return IntStream.range(from, to).mapToObj(each -> topic + " " + each).collect(Collectors.toList());
    }

    List<TopicPartition> partitions(String topic) throws Exception {
        int count = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        return IntStream.range(0, count).mapToObj(each -> new TopicPartition(topic, each)).collect(Collectors.toList());
    }

    /** All values up to the end that `isolation` shows now. */
    List<String> read(String topic, String isolation) throws Exception {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            Collection<TopicPartition> partitions = partitions(topic);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            waitFor("the end of " + topic, () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    found.add(record.value());
                }
                return ends.entrySet().stream().allMatch(each -> consumer.position(each.getKey()) >= each.getValue());
            });
        }
        return found;
    }

    static void waitFor(String what, Callable<Boolean> holds) throws Exception {
        waitFor(() -> what, holds);
    }

    static void waitFor(Supplier<String> what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + DEADLINE_MS * 1_000_000;
        while (!holds.call()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("never: " + what.get());
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void close() {
        admin.close(Duration.ofSeconds(5));
    }
}
