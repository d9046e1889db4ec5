"""Responses have the bytes that kafka-python's own encoder, with an object for each struct, gives them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from srm_common.kafka.client.library import messages
from srm_common.testing.fake_cluster.encoding import response_encoder, unsigned_varint

_RANGES = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}


def value_of(field: Any, random: Random, version: int) -> Any:
    """Any value of a field's type, and null where it may be."""
    if field.nullable_for_version_q(version) and random.random() < 0.2:
        return None
    if field.is_struct_array():
        return [values_of(field.fields, random, version) for _ in range(random.randrange(4))]
    if field.is_array():
        return [simple(field.array_of.type_str, random) for _ in range(random.choice((0, 1, 3, 200)))]
    return values_of(field.fields, random, version) if field.is_struct() else simple(field.type_str, random)


def simple(kind: str, random: Random) -> Any:
    match kind:
        case "bool":
            return random.random() < 0.5
        case "uint16":
            return random.randrange(2**16)
        case "float64":
            return random.random()
        case "uuid":
            return uuid.UUID(int=random.getrandbits(128))
        case "bitfield":
            return {random.randrange(31) for _ in range(random.randrange(1, 4))}
        case "string":
            return "ä" * random.choice((0, 1, 70, 9000))
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 127, 128, 20_000)))
        case _:
            return random.randrange(-_RANGES[kind], _RANGES[kind])


def values_of(fields: Mapping[str, Any], random: Random, version: int) -> dict[str, Any]:
    """A mapping as handlers answer: some fields have their default, tagged ones too."""
    return {name: value_of(field, random, version) for name, field in fields.items() if random.random() < 0.8}


def objects(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the library's classes."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        field = kind.fields[name]
        if value is not None and field.is_struct_array():
            value = [field.data_class(**objects(field.data_class, one)) for one in value]
        elif value is not None and field.is_struct():
            value = field.data_class(**objects(field.data_class, value))
        out[name] = value
    return out


@pytest.mark.parametrize("api", sorted(messages()))
def test_every_response_in_every_version(api: str) -> None:
    kind, random = messages()[api][1], Random(api)
    oldest, newest = kind.valid_versions
    for version in range(oldest, newest + 1):
        for _ in range(3):
            answer = values_of(kind.fields, random, version)
            expected = kind(version=version, **objects(kind, answer)).encode()
            pieces: list[bytes] = []
            response_encoder(kind, version)(answer, pieces.append)
            assert b"".join(pieces) == bytes(expected), (version, answer)


def test_fields_that_the_schema_does_not_have_are_named() -> None:
    kind = messages()["Metadata"][1]
    with pytest.raises(ValueError, match="MetadataResponseTopic has no field nam, partition"):
        response_encoder(kind, 12)({"topics": [{"nam": "a", "partition": []}]}, lambda piece: None)


@pytest.mark.parametrize(("value", "expected"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")])
def test_unsigned_varints(value: int, expected: bytes) -> None:
    assert unsigned_varint(value) == expected
