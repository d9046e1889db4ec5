import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;

/** Reads our records with MirrorMaker 2's own classes: one line of tab-separated fields for each. */
public class Mm2Judge {
    public static void main(String[] args) throws Exception {
        for (int at = 1; at < args.length; at += 2) {
            switch (args[at]) {
                case "heartbeats" -> read(args[0], args[at + 1]).forEach(record -> {
                    Heartbeat beat = Heartbeat.deserializeRecord(record);
                    line("heartbeat", beat.sourceClusterAlias(), beat.targetClusterAlias(), beat.timestamp(),
                        record.timestamp());
                });
                case "checkpoints" -> read(args[0], args[at + 1]).forEach(record -> {
                    Checkpoint found = Checkpoint.deserializeRecord(record);
                    line("checkpoint", found.consumerGroupId(), found.topicPartition(), found.upstreamOffset(),
                        found.downstreamOffset(), found.metadata());
                });
                case "format" -> read(args[0], args[at + 1]).forEach(record -> {
                    var text = new ByteArrayOutputStream();
                    new CheckpointFormatter().writeTo(record, new PrintStream(text));
                    line("formatted", text.toString().strip());
                });
                case "syncs" -> read(args[0], args[at + 1]).forEach(record -> {
                    OffsetSync sync = OffsetSync.deserializeRecord(record);
                    line("sync", sync.topicPartition(), sync.upstreamOffset(), sync.downstreamOffset());
                });
                case "translate" -> {
                    String[] aliasAndGroup = args[at + 1].split("/");
                    RemoteClusterUtils.translateOffsets(Map.of("bootstrap.servers", args[0]), aliasAndGroup[0],
                        aliasAndGroup[1], Duration.ofSeconds(20)).forEach((place, offset) ->
                        line("translated", place, offset.offset(), offset.metadata()));
                }
                case "upstream" -> line("upstream", RemoteClusterUtils.upstreamClusters(
                    Map.of("bootstrap.servers", args[0])));
                default -> throw new IllegalArgumentException(args[at]);
            }
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(String servers, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "isolation.level", "read_committed",
            "enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            var found = new java.util.ArrayList<ConsumerRecord<byte[], byte[]>>();
            while (consumer.position(place) < end) {
                consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            }
            return found;
        }
    }

    private static void line(Object... fields) {
        System.out.println(String.join("\t", java.util.Arrays.stream(fields).map(String::valueOf).toList()));
    }
}
