"""Avro as Confluent's converter writes it: schemas, values and their bytes."""
