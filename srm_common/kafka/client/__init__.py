"""Connections to a cluster: kafka-python over transports of our own, and librdkafka (docs/adr/0002)."""
