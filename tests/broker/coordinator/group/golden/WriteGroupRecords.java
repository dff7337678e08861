import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

/** Prints "name version hex" of records of __consumer_offsets, as Apache Kafka's own classes write them. */
public class WriteGroupRecords {
    private static void print(String name, int version, Message message) {
        StringBuilder hex = new StringBuilder();
        for (byte b : MessageUtil.toVersionPrefixedBytes((short) version, message)) hex.append(String.format("%02x", b));
        System.out.println(name + " " + version + " " + hex);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static GroupMetadataValue.MemberMetadata member(String id, String instance) {
        return new GroupMetadataValue.MemberMetadata().setMemberId(id).setGroupInstanceId(instance)
            .setClientId("client").setClientHost("/127.0.0.1").setRebalanceTimeout(300000).setSessionTimeout(45000)
            .setSubscription(bytes("subscription of " + id)).setAssignment(bytes("assignment of " + id));
    }

    public static void main(String[] args) {
        for (int version = 0; version <= 1; version++) {
            print("offset-key", version, new OffsetCommitKey().setGroup("gr\u00fc\u00dfe").setTopic("topic").setPartition(7));
        }
        print("group-key", 2, new GroupMetadataKey().setGroup("gr\u00fc\u00dfe"));
        for (int version = 0; version <= 4; version++) {
            OffsetCommitValue offset = new OffsetCommitValue().setOffset(1L << 40).setLeaderEpoch(5)
                .setMetadata("where \u2713").setCommitTimestamp(1700000000123L);
            if (version == 1) offset.setExpireTimestamp(1700000999999L);
            print("offset-value", version, offset);
            print("empty-offset-value", version, new OffsetCommitValue().setOffset(0).setMetadata("").setCommitTimestamp(0));
            print("group-value", version, new GroupMetadataValue().setProtocolType("consumer").setGeneration(3)
                .setProtocol("range").setLeader("a").setCurrentStateTimestamp(1700000000456L)
                .setMembers(List.of(member("a", null), member("b", "static"))));
            print("empty-group-value", version, new GroupMetadataValue().setProtocolType("consumer").setGeneration(9)
                .setProtocol(null).setLeader(null).setCurrentStateTimestamp(1700000000789L).setMembers(List.of()));
        }
    }
}
