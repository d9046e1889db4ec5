"""Connections to a cluster: kafka-python with our own transport and receive buffers, and librdkafka (docs/adr/0002)."""
