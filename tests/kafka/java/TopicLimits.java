import java.lang.instrument.Instrumentation;
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * Limits of topics' settings as managed clusters have them, for both policies of a broker. It is an agent that does
 * nothing, since the jars of agents belong to the class path.
 */
public final class TopicLimits {
    private static final Map<String, Long> LEAST =
        Map.of("segment.bytes", 52_428_800L, "segment.ms", 14_400_000L, "max.compaction.lag.ms", 21_600_000L);
    private static final long LARGEST_RECORD = 8_388_608L;

    public static void premain(String nothing, Instrumentation instrumentation) {
    }

    private static void check(Map<String, String> settings) {
        for (Map.Entry<String, String> setting : settings.entrySet()) {
            if (setting.getValue() == null)  // it is removed
                continue;
            String begin = "Config property '" + setting.getKey() + "' with value '" + setting.getValue() + "' ";
            Long least = LEAST.get(setting.getKey());
            if (least != null && Long.parseLong(setting.getValue()) < least)
                throw new PolicyViolationException(begin + "is lower than the minimum allowed value of " + least + ".");
            if (setting.getKey().equals("max.message.bytes") && Long.parseLong(setting.getValue()) > LARGEST_RECORD)
                throw new PolicyViolationException(begin + "exceeded max limit of " + LARGEST_RECORD + ".");
        }
    }

    /** What both have in common: nothing to set up or to end. */
    private abstract static class Limits {
        public void configure(Map<String, ?> settings) {
        }

        public void close() {
        }
    }

    public static final class OfNewTopics extends Limits implements CreateTopicPolicy {
        @Override
        public void validate(RequestMetadata request) {
            check(request.configs());
        }
    }

    public static final class OfChanges extends Limits implements AlterConfigPolicy {
        @Override
        public void validate(RequestMetadata request) {
            check(request.configs());
        }
    }
}
