"""JSON Schema of a registry, as Confluent's converter reads and writes it."""
