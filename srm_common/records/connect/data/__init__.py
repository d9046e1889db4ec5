"""Connect's schemas and values, as the classes of org.apache.kafka.connect.data have them."""
