import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** A consumer of a group that polls in a thread of its own until it is closed. */
class Member implements AutoCloseable, ConsumerRebalanceListener {
    final Queue<String> seen = new ConcurrentLinkedQueue<>();
    final Queue<TopicPartition> revoked = new ConcurrentLinkedQueue<>();
    volatile Set<TopicPartition> assignment = Set.of();
    volatile Throwable error;
    /** While it is set the member does not poll. */
    volatile boolean stalled;

    private final KafkaConsumer<String, String> consumer;
    private final Thread thread;
    private volatile boolean closing;

    Member(Kafka kafka, String group, List<String> topics, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("group.id", group);
        this.consumer = kafka.consumer(all);
        consumer.subscribe(topics, this);
        this.thread = new Thread(this::poll, group);
        thread.setDaemon(true);
        thread.start();
    }

    private void poll() {
        try {
            while (!closing) {
                if (stalled) {
                    Thread.sleep(50);
                    continue;
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    seen.add(record.value());
                }
                assignment = Set.copyOf(consumer.assignment());
            }
        } catch (WakeupException woken) {
            // Closing.
        } catch (Throwable problem) {
            error = problem;
        } finally {
            consumer.close(Duration.ofSeconds(30));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        revoked.addAll(partitions);
    }

    @Override
    public String toString() {
        return "a member with " + assignment + (error == null ? "" : " that failed: " + error);
    }

    @Override
    public void close() throws InterruptedException {
        closing = true;
        consumer.wakeup();
        thread.join(60_000);
        Conformance.check(!thread.isAlive(), "a consumer does not close");
    }
}
