"""Connections to a cluster: kafka-python with our own transport, and librdkafka (docs/adr/0002)."""
