"""Protobuf of a registry, without protoc: definitions, messages and their bytes (docs/adr/0018)."""
