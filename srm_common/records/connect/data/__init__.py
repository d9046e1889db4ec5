"""Connect's schemas and values, modelled on the classes of org.apache.kafka.connect.data."""
