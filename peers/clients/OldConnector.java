// The high-level consumer of Kafka 0.8.2 (ConsumerConnector), on the jars of kafka_2.11:
//   java -cp JARS OldConnector.java topic|white|black NAME STREAMS KEY=VALUE…
// NAME is a topic, or the regular expression of a white or black list. The pairs are its properties. It prints "ready"
// when it has joined the group, "read VALUE" for each record of its streams, and shuts down at SIGTERM.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.nio.charset.StandardCharsets;
import kafka.consumer.Blacklist;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;

public class OldConnector {
    static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static List<KafkaStream<byte[], byte[]>> streams(ConsumerConnector connector, String kind, String name, int count) {
        switch (kind) {
            case "topic":
                return connector.createMessageStreams(Map.of(name, count)).get(name);
            case "white":
                return connector.createMessageStreamsByFilter(new Whitelist(name), count);
            case "black":
                return connector.createMessageStreamsByFilter(new Blacklist(name), count);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    static void read(KafkaStream<byte[], byte[]> stream) {
        ConsumerIterator<byte[], byte[]> records = stream.iterator();
        while (records.hasNext()) {
            print("read " + new String(records.next().message(), StandardCharsets.UTF_8));
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Properties properties = new Properties();
        for (int i = 3; i < args.length; i++) {
            int at = args[i].indexOf('=');
            properties.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
        ConsumerConnector connector = kafka.consumer.Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        Runtime.getRuntime().addShutdownHook(new Thread(connector::shutdown));
        List<Thread> readers = new ArrayList<>();
        for (KafkaStream<byte[], byte[]> stream : streams(connector, args[0], args[1], Integer.parseInt(args[2]))) {
            Thread reader = new Thread(() -> read(stream));
            reader.start();
            readers.add(reader);
        }
        print("ready");
        for (Thread reader : readers) {
            reader.join();
        }
    }
}
