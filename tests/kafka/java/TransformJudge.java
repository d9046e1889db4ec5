import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Kafka's own transforms and converters: first the version of Java in a line, then for each case in a line of JSON the
 * record that comes out of it in another. A case has "steps" (class, settings), "key" and "value" (class of the
 * converter, settings, data in Base64), "headers" (class of their converter), "topic", "partition" and "timestamp".
 */
public class TransformJudge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Object> CONFIGURED = new HashMap<>();

    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        output.println(Runtime.version().feature());
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable error) {
                answer = JSON.createObjectNode().put("error", error.getClass().getName() + ": " + error.getMessage());
            }
            output.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode answer(JsonNode one) throws Exception {
        List<Transformation<SourceRecord>> steps = new ArrayList<>();
        for (JsonNode step : one.get("steps")) {
            steps.add(transformation(step));
        }
        Converter keys = converter(one.get("key"), true);
        Converter values = converter(one.get("value"), false);
        String topic = one.get("topic").asText();
        SchemaAndValue key = keys.toConnectData(topic, one.get("key").get("data").binaryValue());
        SchemaAndValue value = values.toConnectData(topic, one.get("value").get("data").binaryValue());
        var record = new SourceRecord(Map.of(), Map.of(), topic, one.get("partition").asInt(), key.schema(),
            key.value(), value.schema(), value.value(), one.get("timestamp").asLong());
        for (Transformation<SourceRecord> step : steps) {
            record = step.apply(record);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("key", keys.fromConnectData(topic, record.keySchema(), record.key()));
        answer.put("value", values.fromConnectData(topic, record.valueSchema(), record.value()));
        ArrayNode headers = answer.putArray("headers");
        var converter = (HeaderConverter) Class.forName(one.get("headers").asText()).getDeclaredConstructor().newInstance();
        converter.configure(Map.of("converter.type", "header"));
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(
                converter.fromConnectHeader(topic, header.key(), header.schema(), header.value()));
        }
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static Transformation<SourceRecord> transformation(JsonNode node) throws Exception {
        var made = (Transformation<SourceRecord>) CONFIGURED.get(node.toString());
        if (made == null) {
            String name = "org.apache.kafka.connect.transforms." + node.get("class").asText();
            made = (Transformation<SourceRecord>) Class.forName(name).getDeclaredConstructor().newInstance();
            made.configure(settings(node));
            CONFIGURED.put(node.toString(), made);
        }
        return made;
    }

    private static Converter converter(JsonNode node, boolean isKey) throws Exception {
        String cached = isKey + node.get("class").asText() + node.get("settings");
        var made = (Converter) CONFIGURED.get(cached);
        if (made == null) {
            made = (Converter) Class.forName(node.get("class").asText()).getDeclaredConstructor().newInstance();
            made.configure(settings(node), isKey);
            CONFIGURED.put(cached, made);
        }
        return made;
    }

    private static Map<String, Object> settings(JsonNode node) {
        Map<String, Object> settings = new HashMap<>();
        node.get("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        return settings;
    }
}
