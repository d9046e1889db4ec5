"""Connect's own transforms that look into records, as org.apache.kafka.connect.transforms has them."""
