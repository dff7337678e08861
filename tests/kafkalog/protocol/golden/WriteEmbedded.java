import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/** Prints "name version hex" of what members of a group tell each other, as the Java client writes it. */
public class WriteEmbedded {
    private static void print(String name, int version, ByteBuffer buffer) {
        StringBuilder hex = new StringBuilder();
        while (buffer.hasRemaining()) hex.append(String.format("%02x", buffer.get()));
        System.out.println(name + " " + version + " " + hex);
    }

    private static ByteBuffer userData() {
        return ByteBuffer.wrap("its own".getBytes(StandardCharsets.UTF_8));
    }

    private static ByteBuffer told(ConsumerPartitionAssignor assignor, List<TopicPartition> had) {
        assignor.onAssignment(new Assignment(had), new ConsumerGroupMetadata("g", 7, "m", Optional.empty()));
        return assignor.subscriptionUserData(new HashSet<>());
    }

    public static void main(String[] args) {
        List<TopicPartition> had = List.of(
            new TopicPartition("orders", 2), new TopicPartition("orders", 0), new TopicPartition("gr\u00fc\u00dfe", 1));
        for (short version = 0; version <= 3; version++) {
            print("subscription", version, ConsumerProtocol.serializeSubscription(
                new Subscription(List.of("orders", "gr\u00fc\u00dfe"), userData(), had, 7, Optional.of("rack-1")), version));
            print("least-subscription", version,
                ConsumerProtocol.serializeSubscription(new Subscription(new ArrayList<>()), version));
            print("assignment", version, ConsumerProtocol.serializeAssignment(new Assignment(had, userData()), version));
            print("least-assignment", version,
                ConsumerProtocol.serializeAssignment(new Assignment(new ArrayList<>()), version));
        }
        print("sticky", 1, told(new StickyAssignor(), had.subList(0, 2)));
        print("cooperative-sticky", 0, told(new CooperativeStickyAssignor(), had));
    }
}
