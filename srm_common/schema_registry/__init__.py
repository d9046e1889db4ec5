"""Schema registries, by Confluent's REST API."""
