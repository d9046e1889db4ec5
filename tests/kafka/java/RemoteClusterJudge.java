import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks Kafka's own client library about a cluster: one line of tab-separated fields for each answer. Arguments: properties
 * as key=value, then questions as what:about.
 */
public class RemoteClusterJudge {
    public static void main(String[] args) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        for (String argument : args) {
            int equals = argument.indexOf('=');
            if (equals > 0) {
                properties.put(argument.substring(0, equals), argument.substring(equals + 1));
                continue;
            }
            String about = argument.substring(argument.indexOf(':') + 1);
            switch (argument.substring(0, argument.indexOf(':'))) {
                case "hops" -> line(argument, RemoteClusterUtils.replicationHops(properties, about));
                case "upstream" -> names(argument, RemoteClusterUtils.upstreamClusters(properties));
                case "heartbeats" -> names(argument, RemoteClusterUtils.heartbeatTopics(properties));
                case "checkpoints" -> names(argument, RemoteClusterUtils.checkpointTopics(properties));
                case "remote" -> {
                    try (MirrorClient client = new MirrorClient(properties)) {
                        names(argument, about.isEmpty() ? client.remoteTopics() : client.remoteTopics(about));
                    }
                }
                case "group" -> {
                    String[] aliasAndGroup = about.split("/");
                    offsets(argument, aliasAndGroup[1], RemoteClusterUtils.translateOffsets(properties,
                        aliasAndGroup[0], aliasAndGroup[1], Duration.ofSeconds(60)));
                }
                case "groups" -> {
                    String[] aliasAndPattern = about.split("/");
                    RemoteClusterUtils.translateOffsets(properties, aliasAndPattern[0],
                        Pattern.compile(aliasAndPattern[1]), Duration.ofSeconds(60))
                        .forEach((group, found) -> offsets(argument, group, found));
                }
                default -> throw new IllegalArgumentException(argument);
            }
        }
    }

    private static void offsets(String question, String group, Map<TopicPartition, OffsetAndMetadata> found) {
        found.forEach((place, offset) -> line(question, group, place.topic(), place.partition(), offset.offset(),
            offset.metadata()));
    }

    private static void names(String question, Collection<String> found) {
        List<String> fields = new java.util.ArrayList<>(List.of(question));
        fields.addAll(new TreeSet<>(found));
        line(fields.toArray());
    }

    private static void line(Object... fields) {
        System.out.println(String.join("\t", Arrays.stream(fields).map(String::valueOf).toList()));
    }
}
