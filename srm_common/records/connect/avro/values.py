"""Converts Avro's binary encoding to Connect's values and back.

fastavro reads and writes the bytes by a schema that has the same encoding as the original, but leaves no choice to
fastavro: branches of unions are records with one field, chosen by the record's name, and there are no logical types.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import fastavro
from fastavro.schema import SchemaParseException

from srm_common.domain.transforms.date_pattern import MILLIS_PER_DAY
from srm_common.domain.transforms.formats import Format
from srm_common.records.connect.avro.encoding import AvroEncoding
from srm_common.records.connect.avro.schemas import (
    Avro,
    branch_name,
    from_connect,
    is_map_entry,
    nullable,
    parsed,
    to_connect,
)
from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.java_values import DataFault, Float32, JavaDate, class_name, wrapped
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type, type_of
from srm_common.records.connect.json.values import decimal_of, logical_integer, unscaled_bytes
from srm_common.records.connect.registry_values import Reference, WithoutPlace

Convert = Callable[[Any], Any]
#: What properties of the wrong type raise (``connect.parameters``, ``logicalType`` and more): a registry checks only
#: Avro's own properties, and nothing checks the schemas in JSON envelopes.
_ODD = (
    SchemaParseException,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
    AssertionError,
)
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
#: What fastavro raises for bytes and values that do not match the schema.
_BROKEN = (ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, AttributeError, MemoryError)


class _Part(NamedTuple):
    wire: Any
    read: Convert
    write: Convert


class AvroValues(WithoutPlace):
    """Decodes and encodes the values of one Avro schema. Implements
    :class:`~srm_common.records.connect.registry_values.RegistryValues`.
    """

    kind: ClassVar[str] = "AVRO"
    title: ClassVar[str] = "Avro"

    def __init__(self, avro: Avro, schema: Schema) -> None:
        self.schema = schema
        self._count = 0
        part = self._part(avro, schema)
        self._read, self._write = part.read, part.write
        self._wire = fastavro.parse_schema(part.wire)
        self._encoding = AvroEncoding(part.wire)

    @classmethod
    def of_text(cls, text: str, references: Sequence[Reference], format_: Format, place: bytes = b"") -> Self:
        """Raises :class:`DataFault` if the text is not Avro, or has no equivalent in Connect."""
        try:
            avro = parsed(text, [reference.text for reference in references])
            return cls(avro, to_connect(avro))
        except DataFault:
            raise
        except _ODD as error:
            raise DataFault(f"has a schema that cannot be used here: {error!r}") from error

    @classmethod
    def of_schema(cls, schema: Schema, format_: Format) -> tuple[str, Self]:
        """Raises :class:`DataFault` if the schema has no equivalent in Avro."""
        try:
            text = json.dumps(from_connect(schema), ensure_ascii=False, separators=(",", ":"))
            return text, cls(parsed(text), schema)
        except DataFault:
            raise
        except _ODD as error:
            raise DataFault(f"cannot be written: Avro has no equivalent of its schema, {schema}: {error!r}") from error

    @staticmethod
    def writes_null(schema: Schema) -> bool:
        """Null becomes a tombstone."""
        return False

    def decode(self, data: bytes) -> Any:
        """Raises :class:`DataFault` if the bytes do not match the schema, or continue after the value."""
        self._encoding.check(data)
        stream = io.BytesIO(data)
        try:
            decimal = fastavro.schemaless_reader(stream, self._wire, None, return_record_name=True)
        except UnicodeDecodeError:
            raise DataFault("has a string that is not UTF-8") from None
        except _BROKEN:
            raise DataFault("does not match its schema") from None
        if stream.tell() != len(data):
            raise DataFault(f"has {len(data) - stream.tell()} bytes after the end of its value")
        try:
            return self._read(decimal)
        except DataFault:
            raise
        except _ODD:
            raise DataFault(f"does not match its schema, {self.schema}") from None

    def encode(self, value: Any) -> bytes:
        """Raises :class:`DataFault` if the schema does not accept the value."""
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, self._wire, self._write(value))
        except DataFault:
            raise
        except _BROKEN:
            raise DataFault("cannot be written: its schema does not accept it") from None
        return stream.getvalue()

    def _name(self) -> str:
        self._count += 1
        return f"R{self._count}"

    def _part(self, avro: Avro, schema: Schema) -> _Part:
        null = nullable(avro)
        if null is not None:
            return self._nullable(avro.branches[1 - null], schema, null)
        match avro.kind:
            case "union":
                return self._union(avro, schema)
            case "record":
                return self._record(avro, schema)
            case "array" if is_map_entry(avro.branches[0]):
                return self._entries(avro.branches[0], schema)
            case "array":
                assert schema.value_schema is not None
                item = self._part(avro.branches[0], schema.value_schema)
                return _Part(
                    {"type": "array", "items": item.wire},
                    lambda found: [item.read(one) for one in found],
                    lambda value: [item.write(one) for one in _taken(schema, value)],
                )
            case "map":
                assert schema.value_schema is not None
                child = self._part(avro.branches[0], schema.value_schema)
                return _Part(
                    {"type": "map", "values": child.wire},
                    lambda found: HashMap((key, child.read(one)) for key, one in found.items()),
                    lambda value: {key: child.write(one) for key, one in _taken(schema, value).entries()},
                )
            case "enum":
                return _enum(avro, schema)
            case "fixed":
                return self._fixed(avro, schema)
        read, write = _simple(schema)
        return _Part(avro.kind, read, write)

    def _nullable(self, avro: Avro, schema: Schema, null: int) -> _Part:
        part = self._part(avro, schema)
        name = self._name()
        # In a record, the branch does not depend on the value.
        held = {"type": "record", "name": name, "fields": [{"name": "v", "type": part.wire}]}
        return _Part(
            ["null", held] if null == 0 else [held, "null"],
            lambda found: None if found is None else part.read(found[1]["v"]),
            lambda value: None if value is None else (name, {"v": part.write(value)}),
        )

    def _union(self, avro: Avro, schema: Schema) -> _Part:
        wires: list[Any] = []
        by_field: dict[str, tuple[str, _Part]] = {}
        by_name: dict[str, tuple[str, _Part]] = {}
        for branch in avro.branches:
            if branch.kind == "null":
                wires.append("null")
                continue
            field = branch_name(branch)
            part = self._part(branch, schema.by_name[field].schema)
            name = self._name()
            wires.append({"type": "record", "name": name, "fields": [{"name": "v", "type": part.wire}]})
            by_field[field], by_name[name] = (name, part), (field, part)

        def read(found: Any) -> Any:
            if found is None:
                return None
            field, part = by_name[found[0]]
            struct = Struct(schema)
            struct.put(field, part.read(found[1]["v"]))
            return struct

        def write(value: Any) -> Any:
            if value is not None:
                for field, one in zip(schema.fields, _taken(schema, value).values, strict=True):
                    if one is not None:
                        name, part = by_field[field.name]
                        return name, {"v": part.write(one)}
            if "null" not in wires:
                raise DataFault("cannot be written: no branch of a union has a value")
            return None

        return _Part(wires, read, write)

    def _record(self, avro: Avro, schema: Schema) -> _Part:
        parts = [(field.name, self._part(field.of, schema.by_name[field.name].schema)) for field in avro.fields]
        wire = {
            "type": "record",
            "name": self._name(),
            "fields": [{"name": f"f{place}", "type": part.wire} for place, (_, part) in enumerate(parts)],
        }

        def read(found: Any) -> Struct:
            struct = Struct(schema)
            struct.values = [part.read(found[f"f{place}"]) for place, (_, part) in enumerate(parts)]
            return struct

        def write(value: Any) -> dict[str, Any]:
            struct = _taken(schema, value)
            return {f"f{place}": part.write(struct.get(name)) for place, (name, part) in enumerate(parts)}

        return _Part(wire, read, write)

    def _entries(self, entry: Avro, schema: Schema) -> _Part:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        schemas = {"key": schema.key_schema, "value": schema.value_schema}
        parts = {field.name: self._part(field.of, schemas[field.name]) for field in entry.fields}
        fields = [{"name": name, "type": part.wire} for name, part in parts.items()]

        def read(found: Any) -> HashMap:
            try:
                return HashMap((parts["key"].read(one["key"]), parts["value"].read(one["value"])) for one in found)
            except TypeError:
                raise DataFault("has a map whose keys are lists or maps, which is not supported here") from None

        def write(value: Any) -> list[dict[str, Any]]:
            pairs = _taken(schema, value).entries()
            return [{"key": parts["key"].write(key), "value": parts["value"].write(one)} for key, one in pairs]

        return _Part(
            {"type": "array", "items": {"type": "record", "name": self._name(), "fields": fields}}, read, write
        )

    def _fixed(self, avro: Avro, schema: Schema) -> _Part:
        size = avro.own["size"]
        read, write = _simple(schema)

        def fitting(value: Any) -> bytes:
            data: bytes = write(value)
            if schema.name == DECIMAL and len(data) < size:
                return int.from_bytes(data, signed=True).to_bytes(size, signed=True)
            if len(data) != size:
                raise DataFault(f"cannot be written: it has {len(data)} bytes for a fixed of {size}")
            return data

        return _Part({"type": "fixed", "name": self._name(), "size": size}, read, fitting)


def _taken(schema: Schema, value: Any) -> Any:
    if type_of(value) is not schema.type:
        raise DataFault(f"cannot be written: it has a {class_name(value)} for {schema}")
    return value


def _enum(avro: Avro, schema: Schema) -> _Part:
    """As the int that encodes it: fastavro accepts fewer symbols than registries do, and counts back from the end."""
    symbols: Sequence[str] = avro.own["symbols"]
    places = {symbol: place for place, symbol in enumerate(symbols)}

    def read(found: int) -> str:
        if not 0 <= found < len(symbols):
            raise DataFault(f"has symbol {found} of the enum {avro.name}, which has {len(symbols)}")
        return symbols[found]

    def write(value: Any) -> int:
        if _taken(schema, value) not in places:
            raise DataFault(f"cannot be written: it has a string that is not a symbol of the enum {avro.name}")
        return places[value]

    return _Part("int", read, write)


def _simple(schema: Schema) -> tuple[Convert, Convert]:
    if schema.name == DECIMAL:
        return _read_decimal(int((schema.parameters or {})["scale"])), _decimal(schema)
    if schema.name in (DATE, TIME, TIMESTAMP):
        unit = MILLIS_PER_DAY if schema.name == DATE else 1
        exact = _small(64 if schema.name == TIMESTAMP else 32)
        return lambda found: JavaDate(exact(found) * unit), _date(schema)
    bits = _BITS.get(schema.type)
    if bits is not None:
        return _small(bits), lambda value: int(_taken(schema, value))
    return Float32 if schema.type is Type.FLOAT32 else _same, lambda value: _taken(schema, value)


def _same(found: Any) -> Any:
    return found


def _small(bits: int) -> Convert:
    def read(found: int) -> int:
        most = 1 << max(bits, 32) - 1
        if not -most <= found < most:
            raise DataFault(f"has a number of more than {max(bits, 32)} bits")
        return wrapped(found, bits)

    return read


def _read_decimal(scale: int) -> Convert:
    def read(found: bytes) -> Any:
        if not found:
            raise DataFault("has a decimal without bytes")
        return decimal_of(int.from_bytes(found, signed=True), scale)

    return read


def _decimal(schema: Schema) -> Convert:
    def write(value: Any) -> bytes:
        if class_name(value) != "java.math.BigDecimal":
            raise DataFault(f"cannot be written: it has a {class_name(value)} for a Decimal")
        return unscaled_bytes(schema, value)

    return write


def _date(schema: Schema) -> Convert:
    def write(value: Any) -> int:
        if type(value) is not JavaDate:
            raise DataFault(f"cannot be written: it has a {class_name(value)} for {schema}")
        return int(logical_integer(schema, value))

    return write
