// The Java clients behind the line protocol of peers/clients/lines.py.
// Runs from source: java -cp <kafka jars> JavaClient.java <bootstrap>

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaClient {
    static final ObjectMapper JSON = new ObjectMapper();
    static final long DEADLINE_MS = 30_000;

    final String bootstrap;
    final Admin admin;

    JavaClient(String bootstrap) {
        this.bootstrap = bootstrap;
        Properties settings = settings();
        settings.put("default.api.timeout.ms", (int) DEADLINE_MS);
        this.admin = Admin.create(settings);
    }

    Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "java-peer");
        return settings;
    }

    static byte[] bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    void createTopic(JsonNode request) throws Exception {
        Map<String, String> config = JSON.convertValue(request.get("config"), Map.class);
        NewTopic topic = new NewTopic(
                request.get("topic").asText(),
                Optional.of(request.get("partitions").asInt()),
                Optional.<Short>empty());
        admin.createTopics(List.of(topic.configs(config))).all().get();
    }

    void produce(JsonNode request, ObjectNode reply) throws Exception {
        Properties settings = settings();
        settings.put("acks", request.get("acks").asText());
        String transaction = request.get("transaction").asText("");
        settings.put("enable.idempotence", request.get("idempotent").asBoolean() || !transaction.isEmpty());
        settings.put("compression.type", request.get("codec").asText());
        settings.put("max.request.size", request.get("max_request").asInt());
        settings.put("buffer.memory", 256L << 20);
        settings.put("batch.size", 1 << 20);
        settings.put("linger.ms", 500);
        settings.put("delivery.timeout.ms", (int) DEADLINE_MS);
        settings.put("request.timeout.ms", 20_000);
        settings.put("max.block.ms", DEADLINE_MS);
        if (!transaction.isEmpty()) {
            settings.put("transactional.id", "java-" + request.get("topic").asText() + "-" + transaction);
        }
        TopicPartition where = partition(request);
        ArrayNode offsets = reply.putArray("offsets");
        ArrayNode timestamps = reply.putArray("timestamps");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes)) {
            if (!transaction.isEmpty()) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode each : request.get("records")) {
                Long timestamp = each.get("timestamp").isNull() ? null : each.get("timestamp").asLong();
                var record = new ProducerRecord<>(
                        where.topic(), where.partition(), timestamp, bytes(each.get("key")), bytes(each.get("value")));
                for (JsonNode header : each.get("headers")) {
                    record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                RecordMetadata metadata = each.get();
                offsets.add(metadata.hasOffset() ? metadata.offset() : -1);
                timestamps.add(metadata.timestamp());
            }
            if (transaction.equals("commit")) {
                producer.commitTransaction();
            } else if (transaction.equals("abort")) {
                producer.abortTransaction();
            }
        }
    }

    void consume(JsonNode request, ObjectNode reply) {
        Properties settings = settings();
        settings.put("isolation.level", request.get("isolation").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        TopicPartition where = partition(request);
        long end = request.get("end").asLong();
        ArrayNode records = reply.putArray("records");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            consumer.assign(List.of(where));
            consumer.seek(where, request.get("start").asLong());
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DEADLINE_MS);
            while (consumer.position(where) < end && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)).records(where)) {
                    if (record.offset() < end) {
                        write(record, records.addObject());
                    }
                }
            }
        }
    }

    void consumeAll(JsonNode request, ObjectNode reply) {
        Properties settings = settings();
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        ArrayNode offsets = reply.putArray("offsets");
        List<TopicPartition> all = new ArrayList<>();
        long missing = 0;
        for (JsonNode end : request.get("ends")) {
            all.add(new TopicPartition(request.get("topic").asText(), all.size()));
            offsets.addArray();
            missing += end.asLong();
        }
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            consumer.assign(all);
            all.forEach(each -> consumer.seek(each, 0));
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DEADLINE_MS);
            while (missing > 0 && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    ((ArrayNode) offsets.get(record.partition())).add(record.offset());
                    missing--;
                }
            }
        }
    }

    static void write(ConsumerRecord<byte[], byte[]> record, ObjectNode to) {
        to.put("offset", record.offset());
        to.put("timestamp", record.timestamp());
        to.put("timestamp_type", record.timestampType().id);
        to.put("key", hex(record.key()));
        to.put("value", hex(record.value()));
        ArrayNode headers = to.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(hex(header.value()));
        }
    }

    void listOffset(JsonNode request, ObjectNode reply) throws Exception {
        String at = request.get("at").asText();
        OffsetSpec spec = switch (at) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(Long.parseLong(at));
        };
        TopicPartition where = partition(request);
        ListOffsetsResult.ListOffsetsResultInfo found =
                admin.listOffsets(Map.of(where, spec)).partitionResult(where).get();
        reply.put("offset", found.offset());
        reply.put("timestamp", found.timestamp());
    }

    void describeConfig(JsonNode request, ObjectNode reply) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
        ObjectNode config = reply.putObject("config");
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).values().get(resource).get().entries()) {
            config.put(entry.name(), entry.value());
        }
    }

    void alterConfig(JsonNode request) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
        List<AlterConfigOp> ops = new ArrayList<>();
        request.get("config").fields().forEachRemaining(each -> ops.add(new AlterConfigOp(
                new ConfigEntry(each.getKey(), each.getValue().asText()), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(resource, ops)).all().get();
    }

    void createPartitions(JsonNode request) throws Exception {
        NewPartitions total = NewPartitions.increaseTo(request.get("partitions").asInt());
        admin.createPartitions(Map.of(request.get("topic").asText(), total)).all().get();
    }

    int partitionCount(JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    void deleteRecords(JsonNode request, ObjectNode reply) throws Exception {
        TopicPartition where = partition(request);
        RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        reply.put("low", admin.deleteRecords(Map.of(where, before)).lowWatermarks().get(where).get().lowWatermark());
    }

    void answer(JsonNode request, ObjectNode reply) throws Exception {
        switch (request.get("op").asText()) {
            case "create_topic" -> createTopic(request);
            case "delete_topic" -> admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
            case "produce" -> produce(request, reply);
            case "consume" -> consume(request, reply);
            case "consume_all" -> consumeAll(request, reply);
            case "list_offset" -> listOffset(request, reply);
            case "describe_config" -> describeConfig(request, reply);
            case "alter_config" -> alterConfig(request);
            case "create_partitions" -> createPartitions(request);
            case "partition_count" -> reply.put("partitions", partitionCount(request));
            case "delete_records" -> deleteRecords(request, reply);
            default -> throw new IllegalArgumentException("unknown op: " + request);
        }
    }

    public static void main(String[] args) throws Exception {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var client = new JavaClient(args[0]);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode reply = JSON.createObjectNode();
            try {
                client.answer(JSON.readTree(line), reply);
            } catch (Exception error) {
                Errors code = Errors.forException(error);
                reply = JSON.createObjectNode();
                reply.put("error", (int) code.code());
                reply.put("message", code.name() + ": " + error);
            }
            out.println(JSON.writeValueAsString(reply));
        }
        client.admin.close(Duration.ofSeconds(5));
    }
}
