// A worker of peers/clients/workers.py with Java's producer and consumer, whose defaults it keeps.
// java -cp <kafka jars> JavaWorker <bootstrap> <topic> <partitions>

import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaWorker {
    static final long PAUSE_MS = 50;

    final String topic;
    final int partitions;
    final Properties settings = new Properties();
    volatile boolean isWriting = true;
    volatile boolean isReading = true;

    JavaWorker(String bootstrap, String topic, int partitions) {
        this.topic = topic;
        this.partitions = partitions;
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", topic);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    void write() {
        var strings = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, strings, strings)) {
            for (int number = 0; isWriting; number++) {
                int partition = number % partitions;
                String value = "%d %d".formatted(partition, number);
                producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
                    if (error == null) {
                        say("acknowledged %d %d %s".formatted(partition, metadata.offset(), value));
                    } else {
                        say("failed %s: %s".formatted(value, error));
                    }
                });
                Thread.sleep(PAUSE_MS);
            }
        } catch (Exception error) {
            say("failed to write: " + error);
        }
        say("written");
    }

    void read() {
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                    say("assigned " + assigned.size());
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                }
            });
            while (isReading) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<String, String> record : records) {
                    say("read %d %d %s".formatted(record.partition(), record.offset(), record.value()));
                }
                if (!records.isEmpty()) {
                    consumer.commitSync();
                    say("committed");
                }
            }
        } catch (Exception error) {
            say("failed to read: " + error);
        }
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        var worker = new JavaWorker(args[0], args[1], Integer.parseInt(args[2]));
        var threads = List.of(new Thread(worker::write), new Thread(worker::read));
        threads.forEach(Thread::start);
        // A line ends the writing, and the end of the input ends the reading.
        System.in.read();
        worker.isWriting = false;
        while (System.in.read() >= 0) {
        }
        worker.isReading = false;
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
