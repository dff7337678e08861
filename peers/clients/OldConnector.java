// The high-level consumer of Kafka 0.8.2 (ConsumerConnector), on the jars of kafka_2.11:
//   java -cp JARS OldConnector.java TOPIC KEY=VALUE…
// The pairs are its properties. It prints "ready" when it has joined the group, "read VALUE" for each record of the
// topic, and shuts down at SIGTERM.

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.nio.charset.StandardCharsets;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.javaapi.consumer.ConsumerConnector;

public class OldConnector {
    static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] args) {
        Properties properties = new Properties();
        for (int i = 1; i < args.length; i++) {
            int at = args[i].indexOf('=');
            properties.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
        ConsumerConnector connector = kafka.consumer.Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        Runtime.getRuntime().addShutdownHook(new Thread(connector::shutdown));
        Map<String, Integer> topics = new HashMap<>();
        topics.put(args[0], 1);
        ConsumerIterator<byte[], byte[]> records = connector.createMessageStreams(topics).get(args[0]).get(0).iterator();
        print("ready");
        while (records.hasNext()) {
            print("read " + new String(records.next().message(), StandardCharsets.UTF_8));
        }
    }
}
