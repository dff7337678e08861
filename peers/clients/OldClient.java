// Kafka's Java clients of before ApiVersions, on the jars of kafka_2.11 0.8.2 to 0.10.0:
//   java -cp JARS OldClient.java HOST PORT produce|consume < lines of commands
// produce: "topic codec count prefix", record n has key "k<n>" (none where n % 3 == 0) and value "<prefix><n>" 10 times
// consume: "topic count", prints "topic offset key value" for each record, "-" for no key
// The producer is the new one (org.apache.kafka.clients), the consumer kafka.javaapi.consumer.SimpleConsumer, which
// needs no coordinator.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class OldClient {
    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return new String(found, StandardCharsets.UTF_8);
    }

    static void produce(String bootstrap, String topic, String codec, int count, String prefix) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("compression.type", codec);
        settings.put("linger.ms", "200");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        List<Future<?>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (int n = 0; n < count; n++) {
                byte[] key = n % 3 == 0 ? null : bytes("k" + n);
                sent.add(producer.send(new ProducerRecord<>(topic, 0, key, bytes((prefix + n).repeat(10)))));
            }
            for (Future<?> each : sent) {
                each.get();
            }
        }
    }

    static void consume(SimpleConsumer consumer, String topic, int count) {
        long next = 0;
        while (next < count) {
            kafka.api.FetchRequest request = new kafka.api.FetchRequestBuilder().clientId("old")
                .addFetch(topic, 0, next, 4000).maxWait(1000).minBytes(1).build();
            kafka.javaapi.FetchResponse response = consumer.fetch(request);
            if (response.hasError()) {
                throw new IllegalStateException("error " + response.errorCode(topic, 0) + " of " + topic);
            }
            long before = next;
            for (MessageAndOffset found : response.messageSet(topic, 0)) {
                if (found.offset() < next) {
                    continue;
                }
                String key = text(found.message().hasKey() ? found.message().key() : null);
                System.out.println(topic + " " + found.offset() + " " + key + " " + text(found.message().payload()));
                next = found.offset() + 1;
            }
            if (next == before) {
                throw new IllegalStateException("nothing at " + next + " of " + topic);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        SimpleConsumer consumer = new SimpleConsumer(words[0], Integer.parseInt(words[1]), 30_000, 1 << 20, "old");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            if (words[2].equals("produce")) {
                produce(words[0] + ":" + words[1], parts[0], parts[1], Integer.parseInt(parts[2]), parts[3]);
            } else {
                consume(consumer, parts[0], Integer.parseInt(parts[1]));
            }
        }
        consumer.close();
        System.out.flush();
    }
}
