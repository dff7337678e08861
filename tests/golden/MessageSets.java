// Message sets v0 and v1 by Apache Kafka's own classes (3.9):
//   java -cp <kafka jars> MessageSets.java write DIR | read FILE...
// write: DIR/java-v<magic>-<codec>.bin, three sets each of offsets 100 to 104, 105 to 109 and 110 (LogAppendTime).
// read: one JSON object a line and file, of all batches and the records within; every checksum is verified.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

public class MessageSets {
    static final long BASE_TIME = 1_700_000_000_000L;
    static final ObjectMapper JSON = new ObjectMapper();

    static byte[] key(long offset) {
        return offset % 3 == 0 ? null : ("key" + offset).getBytes(StandardCharsets.UTF_8);
    }

    static byte[] value(long offset) {
        return offset % 5 == 4 ? null : ("value " + offset + " ").repeat(20).getBytes(StandardCharsets.UTF_8);
    }

    static byte[] set(byte magic, CompressionType codec, long first, long last, TimestampType type) {
        TimestampType known = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : type;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(codec).build(), known, first, BASE_TIME + 5000);
        for (long offset = first; offset <= last; offset++) {
            long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : BASE_TIME + offset * 7 % 10;
            builder.appendWithOffset(offset, time, key(offset), value(offset));
        }
        ByteBuffer built = builder.build().buffer();
        byte[] bytes = new byte[built.remaining()];
        built.duplicate().get(bytes);
        return bytes;
    }

    static void write(String directory) throws Exception {
        for (byte magic = 0; magic <= 1; magic++) {
            for (CompressionType codec : CompressionType.values()) {
                if (codec == CompressionType.ZSTD) {
                    continue;
                }
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                out.write(set(magic, codec, 100, 104, TimestampType.CREATE_TIME));
                out.write(set(magic, codec, 105, 109, TimestampType.CREATE_TIME));
                out.write(set(magic, codec, 110, 110, TimestampType.LOG_APPEND_TIME));
                Files.write(Path.of(directory, "java-v" + magic + "-" + codec.name + ".bin"), out.toByteArray());
            }
        }
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static void read(String file) throws Exception {
        ObjectNode said = JSON.createObjectNode();
        ArrayNode batches = said.putArray("batches");
        try (FileRecords segment = FileRecords.open(new File(file))) {
            for (RecordBatch batch : segment.batches()) {
                batch.ensureValid();
                ObjectNode to = batches.addObject();
                to.put("magic", batch.magic());
                to.put("codec", batch.compressionType().name);
                to.put("timestamp_type", batch.timestampType().id);
                to.put("max_timestamp", batch.maxTimestamp());
                to.put("last_offset", batch.lastOffset());
                ArrayNode records = to.putArray("records");
                for (Record record : batch) {
                    record.ensureValid();
                    records.addArray().add(record.offset()).add(record.timestamp()).add(hex(record.key()))
                        .add(hex(record.value()));
                }
            }
        }
        System.out.println(JSON.writeValueAsString(said));
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("write")) {
            write(words[1]);
            return;
        }
        for (int at = 1; at < words.length; at++) {
            read(words[at]);
        }
    }
}
