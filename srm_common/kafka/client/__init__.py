"""Connections of kafka-python over transports of our own; nothing else knows that library (docs/adr/0002)."""
