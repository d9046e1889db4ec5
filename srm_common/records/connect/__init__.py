"""Kafka Connect's data: schemas, structs and converters, with the values that its Java classes have."""
