import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Java's clients make of client quotas: they produce, consume and create topics above them, are held back, and
 * come through. Arguments: bootstrap servers, topic. Prints what their own metrics say.
 */
public class Quotas {
    private static final int RECORDS = 60;

    private static double metric(Map<MetricName, ? extends Metric> metrics, String name) {
        return metrics.values().stream().filter(m -> m.metricName().name().equals(name))
            .mapToDouble(m -> (Double) m.metricValue()).filter(v -> !Double.isNaN(v)).max().orElse(0);
    }

    private static void produce(String bootstrap, String topic) throws Exception {
        Properties config = new Properties();
        config.putAll(Map.of("bootstrap.servers", bootstrap, "client.id", "java-producer", "batch.size", "0"));
        config.putAll(Map.of("max.in.flight.requests.per.connection", "1", "acks", "all"));
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, new byte[1000])).get();
            }
            System.out.println("produced " + RECORDS + " " + (metric(producer.metrics(), "produce-throttle-time-max") > 0));
        }
    }

    private static void consume(String bootstrap, String topic) {
        Properties config = new Properties();
        config.putAll(Map.of("bootstrap.servers", bootstrap, "client.id", "java-consumer", "auto.offset.reset", "earliest"));
        config.put("max.partition.fetch.bytes", "5000");
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            int count = 0;
            while (count < RECORDS) {
                for (var record : consumer.poll(java.time.Duration.ofSeconds(1))) {
                    if (record.offset() != count++) {
                        throw new IllegalStateException("offset " + record.offset() + " after " + (count - 1));
                    }
                }
            }
            System.out.println("consumed " + count + " " + (metric(consumer.metrics(), "fetch-throttle-time-max") > 0));
        }
    }

    private static void create(String bootstrap, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", "java-admin"))) {
            long began = System.currentTimeMillis();
            for (int i = 0; i < 4; i++) {
                // Retried by the client itself once its throttle time is over.
                admin.createTopics(List.of(new NewTopic(topic + "-" + i, Optional.of(10), Optional.empty()))).all().get();
            }
            System.out.println("created 4 " + (System.currentTimeMillis() - began > 1000));
        }
    }

    public static void main(String[] words) throws Exception {
        produce(words[0], words[1]);
        consume(words[0], words[1]);
        create(words[0], words[1]);
    }
}
