"""Connect's built-in transforms that look into keys and values, as in org.apache.kafka.connect.transforms."""
