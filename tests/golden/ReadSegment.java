// What Apache Kafka's own reader finds in segment files: java -cp <kafka jars> ReadSegment.java FILE...
// Prints one JSON object a file: {"batches": [{header fields, "control", "records": [{...}]}]}; bytes are hex.
// ensureValid() checks the CRC; iterating checks every length, count and varint.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

public class ReadSegment {
    static final ObjectMapper JSON = new ObjectMapper();

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static void write(Record record, ObjectNode to) {
        record.ensureValid();
        to.put("offset", record.offset());
        to.put("timestamp", record.timestamp());
        to.put("key", hex(record.key()));
        to.put("value", hex(record.value()));
        ArrayNode headers = to.putArray("headers");
        for (Header header : record.headers()) {
            byte[] value = header.value();
            headers.addArray().add(header.key()).add(value == null ? null : HexFormat.of().formatHex(value));
        }
    }

    static void write(RecordBatch batch, ObjectNode to) {
        batch.ensureValid();
        to.put("base_offset", batch.baseOffset());
        to.put("last_offset", batch.lastOffset());
        to.put("leader_epoch", batch.partitionLeaderEpoch());
        to.put("codec", batch.compressionType().name);
        to.put("max_timestamp", batch.maxTimestamp());
        to.put("log_append_time", batch.timestampType().id == 1);
        to.put("producer_id", batch.producerId());
        to.put("producer_epoch", batch.producerEpoch());
        to.put("base_sequence", batch.baseSequence());
        to.put("transactional", batch.isTransactional());
        to.put("control", batch.isControlBatch());
        ArrayNode records = to.putArray("records");
        for (Record record : batch) {
            write(record, records.addObject());
        }
    }

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            ObjectNode said = JSON.createObjectNode();
            ArrayNode batches = said.putArray("batches");
            try (FileRecords segment = FileRecords.open(new File(file))) {
                for (RecordBatch batch : segment.batches()) {
                    write(batch, batches.addObject());
                }
            }
            System.out.println(JSON.writeValueAsString(said));
        }
    }
}
