"""Schema registries, through Confluent's REST API."""
