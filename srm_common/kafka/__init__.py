"""The Kafka edge: kafka-python for raw batches, confluent-kafka for admin work and state topics."""
