import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorCheckpointTask;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * MirrorMaker 2's own checkpoint connector and its task, as a Connect worker would run them, but nothing is written:
 * one line of tab-separated fields for each checkpoint that it would write. Arguments: source and target servers, their
 * aliases, topics, groups, "source" or "target" (where the offset syncs are), and for how many checkpoints to wait.
 */
public class Mm2Checkpoints {
    private static final long PATIENCE_MS = 90_000;

    public static void main(String[] args) throws Exception {
        Map<String, String> settings = new HashMap<>(Map.of("source.cluster.bootstrap.servers", args[0],
            "target.cluster.bootstrap.servers", args[1], "source.cluster.alias", args[2],
            "target.cluster.alias", args[3], "topics", args[4], "groups", args[5],
            "offset-syncs.topic.location", args[6], "name", "MirrorCheckpointConnector",
            "connector.class", MirrorCheckpointConnector.class.getName(),
            "emit.checkpoints.interval.seconds", "1"));
        for (String topic : List.of("checkpoints", "offset-syncs", "heartbeats")) {
            settings.put(topic + ".topic.replication.factor", "1");
        }
        int wanted = Integer.parseInt(args[7]);
        var connector = new MirrorCheckpointConnector();
        connector.initialize(new Context());
        connector.start(settings);
        var task = new MirrorCheckpointTask();
        task.start(connector.taskConfigs(1).get(0));
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        int found = 0;
        while (found < wanted && System.currentTimeMillis() < deadline) {
            List<SourceRecord> records = task.poll();
            for (SourceRecord record : records == null ? List.<SourceRecord>of() : records) {
                Checkpoint one = Checkpoint.deserializeRecord(new ConsumerRecord<>(record.topic(), 0, 0,
                    (byte[]) record.key(), (byte[]) record.value()));
                System.out.println(String.join("\t", one.consumerGroupId(), one.topicPartition().topic(),
                    String.valueOf(one.topicPartition().partition()), String.valueOf(one.upstreamOffset()),
                    String.valueOf(one.downstreamOffset()), one.metadata()));
                found++;
            }
        }
        task.stop();
        connector.stop();
        System.exit(0);
    }

    private static class Context implements ConnectorContext {
        @Override
        public void requestTaskReconfiguration() {
        }

        @Override
        public void raiseError(Exception error) {
            throw new IllegalStateException(error);
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return null;
        }
    }
}
