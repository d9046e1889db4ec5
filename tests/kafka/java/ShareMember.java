import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The only member of a share group, until its standard input is closed. Arguments: servers, group, topic. */
public class ShareMember {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "group.id", args[1]);
        var bytes = new ByteArrayDeserializer();
        Thread input = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException closed) {
                // As good as its end.
            }
        });
        input.start();
        try (var consumer = new KafkaShareConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(args[2]));
            while (input.isAlive()) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }
}
