import org.apache.kafka.server.common.MetadataVersion;

/** Prints the level and the name of each version of Kafka's metadata. */
public class MetadataVersions {
    public static void main(String[] args) {
        for (MetadataVersion version : MetadataVersion.values()) {
            System.out.println(version.featureLevel() + " " + version.version());
        }
    }
}
