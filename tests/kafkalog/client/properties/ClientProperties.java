import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the names of all properties of Java's producer, consumer and administration client, one a line. */
public class ClientProperties {
    public static void main(String[] args) {
        Set<String> names = new TreeSet<>(ProducerConfig.configNames());
        names.addAll(ConsumerConfig.configNames());
        names.addAll(AdminClientConfig.configNames());
        names.forEach(System.out::println);
    }
}
