"""How keys and values are written, for transforms that look into them: ``value.format``, or Connect's converters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum

from srm_common.domain.transforms.faults import TransformFault

#: What a key or value begins with whose schema is in a registry (Confluent's wire format): a zero and the schema's id.
SCHEMA_ID_BYTES = 5


class Side(Enum):
    """Which part of a record, by the names in Kafka's classes."""

    KEY = "Key"
    VALUE = "Value"

    @property
    def prefix(self) -> str:
        """What the side's keys of the configuration begin with."""
        return self.value.lower()


class FormatKind(Enum):
    """By the words that ``value.format`` takes."""

    AVRO = "avro"
    BYTES = "bytes"
    JSON = "json"
    JSON_SCHEMA = "json-schema"
    PROTOBUF = "protobuf"
    STRING = "string"


class HeaderConverter(Enum):
    """How values of headers are written, by the names of Connect's classes."""

    SIMPLE = "SimpleHeaderConverter"
    STRING = "StringConverter"


@dataclass(frozen=True, slots=True)
class ProtobufOptions:
    """Settings of ``ProtobufConverter``, with their defaults.

    Args:
        full_names: Connect's schemas have the full names of messages and enums (``enhanced.protobuf.schema.support``).
        scrub_names: characters that names in Protobuf have not are replaced (``scrub.invalid.names``).
        enums_as_integers: ``int.for.enums``.
        optional_for_nullables: what Connect has as optional is ``optional`` in Protobuf, and nothing else.
        optional_in_proto2: ``optional`` of proto2 counts, too (``optional.for.proto2``).
        wrappers_for_nullables: what Connect has as optional is a wrapper, such as ``google.protobuf.Int32Value``.
        wrappers_as_primitives: a wrapper as a whole value is what it wraps (``wrapper.for.raw.primitives``).
        structs_for_nulls: what is not there is read as a message without fields (``generate.struct.for.nulls``).
        union_indexes: a oneof's field in Connect has its place in its name (``generate.index.for.unions``).
        flat_unions: a oneof's fields stand among the others (``flatten.unions``).
    """

    full_names: bool = False
    scrub_names: bool = False
    enums_as_integers: bool = False
    optional_for_nullables: bool = False
    optional_in_proto2: bool = True
    wrappers_for_nullables: bool = False
    wrappers_as_primitives: bool = True
    structs_for_nulls: bool = False
    union_indexes: bool = True
    flat_unions: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """One side's converter.

    Args:
        schemas: JSON stands in an envelope with its schema (``schemas.enable``).
        replace_null_with_default: null is read and written as the schema's default.
        numeric_decimals: decimals are written as numbers instead of Base64 (``decimal.format``).
        optional_unless_required: properties that a JSON Schema does not require are optional
            (``use.optional.for.nonrequired``).
        closed_objects: new JSON Schemas allow no other properties (``object.additional.properties``).
        protobuf: how Protobuf is read and written.
    """

    kind: FormatKind
    schemas: bool = False
    replace_null_with_default: bool = True
    numeric_decimals: bool = False
    optional_unless_required: bool = False
    closed_objects: bool = False
    protobuf: ProtobufOptions = ProtobufOptions()


#: The key that says how headers are written.
HEADER_CONVERTER = "header.converter"
#: What the keys begin with that say how keys and values are written.
FORMAT_KEYS = ("key.format", "value.format", "key.converter", "value.converter")
_CLASSES = {
    "io.confluent.connect.avro.AvroConverter": FormatKind.AVRO,
    "io.confluent.connect.json.JsonSchemaConverter": FormatKind.JSON_SCHEMA,
    "io.confluent.connect.protobuf.ProtobufConverter": FormatKind.PROTOBUF,
    "org.apache.kafka.connect.converters.ByteArrayConverter": FormatKind.BYTES,
    "org.apache.kafka.connect.json.JsonConverter": FormatKind.JSON,
    "org.apache.kafka.connect.storage.StringConverter": FormatKind.STRING,
}
_HEADER_CLASSES = {
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": HeaderConverter.SIMPLE,
    "org.apache.kafka.connect.storage.StringConverter": HeaderConverter.STRING,
    "org.apache.kafka.connect.converters.ByteArrayConverter": HeaderConverter.SIMPLE,
}
_HEADER_CONVERTERS = {"": HeaderConverter.SIMPLE, **_HEADER_CLASSES}
#: Formats whose schemas are in a registry.
WITH_REGISTRY = {FormatKind.AVRO: "Avro", FormatKind.JSON_SCHEMA: "JSON Schema", FormatKind.PROTOBUF: "Protobuf"}
_FORMATS = "json, avro, json-schema, protobuf, string or bytes"
#: Settings of Confluent's converters by what they have to be, and their defaults.
_SETTINGS_WITH_REGISTRY = {
    "auto.register.schemas": "true",
    "use.latest.version": "false",
    "ignore.default.for.nullables": "false",
    "generalized.sum.type.support": "false",
}
_SETTINGS = {
    FormatKind.AVRO: _SETTINGS_WITH_REGISTRY
    | {"enhanced.avro.schema.support": "false", "connect.meta.data": "true", "scrub.invalid.names": "false"},
    FormatKind.JSON_SCHEMA: _SETTINGS_WITH_REGISTRY
    | {
        "flatten.singleton.unions": "true",
        "ignore.modern.dialects": "false",
        "json.fail.invalid.schema": "false",
        "json.indent.output": "false",
        "preserve.additional.properties": "false",
        "schema.backup.enabled": "false",
    },
    FormatKind.PROTOBUF: _SETTINGS_WITH_REGISTRY
    | {"schema.backup.enabled": "false", "skip.known.types": "true", "reference.lookup.only": "false"},
}
#: Confluent's names of what can be set for Protobuf, by those here.
_PROTOBUF = {
    "full_names": "enhanced.protobuf.schema.support",
    "scrub_names": "scrub.invalid.names",
    "enums_as_integers": "int.for.enums",
    "optional_for_nullables": "optional.for.nullables",
    "optional_in_proto2": "optional.for.proto2",
    "wrappers_for_nullables": "wrapper.for.nullables",
    "wrappers_as_primitives": "wrapper.for.raw.primitives",
    "structs_for_nulls": "generate.struct.for.nulls",
    "union_indexes": "generate.index.for.unions",
    "flat_unions": "flatten.unions",
}
_PROTOBUF_DEFAULTS = {field.name: field.default for field in fields(ProtobufOptions)}
_SUBJECTS = "TopicNameStrategy"


def format_of(side: Side, values: Mapping[str, str], needed_by: str) -> Format:
    """The format of one side, for a transform that uses its fields.

    Args:
        values: the flow's keys, those of the side's converter among them.
        needed_by: the key that names the transform's class.

    Raises:
        TransformFault: none is named, or it is one that is not read here.
    """
    format_key, class_key = f"{side.prefix}.format", f"{side.prefix}.converter"
    written, named = values.get(format_key, "").strip(), values.get(class_key, "").strip()
    kind = _CLASSES.get(named)
    if written:
        if named and kind is not FormatKind.BYTES:
            raise TransformFault(
                format_key, f"is '{written}', but {class_key} names a converter, too: keep one of them"
            )
        try:
            kind = FormatKind(written.lower())
        except ValueError:
            raise TransformFault(format_key, f"is '{written}', but must be {_FORMATS}") from None
        found = Format(kind)
    elif named:
        if kind is None:
            known = ", ".join(_CLASSES)
            raise TransformFault(class_key, f"is '{named}', a Java class that is not loaded; known are {known}")
        found = Format(
            kind,
            kind is FormatKind.JSON and switch(f"{class_key}.schemas.enable", values),
            switch(f"{class_key}.replace.null.with.default", values),
            _numeric(f"{class_key}.decimal.format", values),
        )
        _refuse_others(class_key, values)
        if kind in WITH_REGISTRY:
            # Their other settings are of registries, which belong to clusters here.
            _refuse_with_registry(kind, class_key, values)
            found = _with_registry(kind, class_key, values)
    else:
        found = Format(FormatKind.BYTES)
    if found.kind is FormatKind.BYTES:
        raise TransformFault(
            class_key if named and not written else format_key,
            f"does not say what {side.prefix}s are, which {needed_by} looks into: "
            f"set it to json, avro, json-schema, protobuf or string, "
            f"or {class_key} to Connect's JsonConverter or StringConverter",
        )
    return found


def header_converter(values: Mapping[str, str]) -> HeaderConverter:
    """What writes headers that a transform makes; Connect's default where the key is missing, and where it is
    MirrorMaker 2's, which writes nothing but bytes.

    Raises:
        TransformFault: it is a class that is not known here.
    """
    named = values.get(HEADER_CONVERTER, "").strip()
    if named not in _HEADER_CONVERTERS:
        raise TransformFault(
            HEADER_CONVERTER, f"is '{named}', which does not write headers here; known are {', '.join(_HEADER_CLASSES)}"
        )
    converter = _HEADER_CONVERTERS[named]
    if converter is HeaderConverter.STRING:
        _refuse_encoding(HEADER_CONVERTER, values)
    return converter


def _with_registry(kind: FormatKind, class_key: str, values: Mapping[str, str]) -> Format:
    if kind is FormatKind.PROTOBUF:
        switches = {
            option: switch(f"{class_key}.{name}", values, default=str(_PROTOBUF_DEFAULTS[option]).lower())
            for option, name in _PROTOBUF.items()
        }
        return Format(kind, protobuf=ProtobufOptions(**switches))
    if kind is FormatKind.AVRO:
        return Format(kind)
    return Format(
        FormatKind.JSON_SCHEMA,
        numeric_decimals=_numeric(f"{class_key}.decimal.format", values),
        optional_unless_required=switch(f"{class_key}.use.optional.for.nonrequired", values, default="false"),
        closed_objects=not switch(f"{class_key}.object.additional.properties", values),
    )


def _refuse_with_registry(kind: FormatKind, class_key: str, values: Mapping[str, str]) -> None:
    for name, needed in _SETTINGS[kind].items():
        text = values.get(f"{class_key}.{name}", needed).strip().lower()
        if text != needed:
            raise TransformFault(f"{class_key}.{name}", f"is '{text}', but only {needed} is carried out here")
    for side in Side:
        key = f"{class_key}.{side.prefix}.subject.name.strategy"
        text = values.get(key, _SUBJECTS).strip()
        if text.rpartition(".")[2] != _SUBJECTS:
            raise TransformFault(key, f"is '{text}', but new schemas are registered by {_SUBJECTS} only")


def _refuse_others(class_key: str, values: Mapping[str, str]) -> None:
    if values.get(f"{class_key}.schema.content", "").strip():
        raise TransformFault(f"{class_key}.schema.content", "is for sink connectors: leave it out")
    _refuse_encoding(class_key, values)


def _refuse_encoding(class_key: str, values: Mapping[str, str]) -> None:
    encoding = values.get(f"{class_key}.converter.encoding", "UTF-8").strip()
    if encoding.upper() not in ("UTF-8", "UTF8"):
        raise TransformFault(
            f"{class_key}.converter.encoding", f"is '{encoding}', but only UTF-8 is read and written here"
        )


def _numeric(key: str, values: Mapping[str, str]) -> bool:
    text = values.get(key, "BASE64").strip().upper()
    if text not in ("BASE64", "NUMERIC"):
        raise TransformFault(key, f"must be BASE64 or NUMERIC, but is '{values[key]}'")
    return text == "NUMERIC"


def switch(key: str, values: Mapping[str, str], default: str = "true") -> bool:
    """A setting that is true or false, and ``default`` where it is missing.

    Raises:
        TransformFault: neither.
    """
    text = values.get(key, default).strip().lower()
    if text not in ("true", "false"):
        raise TransformFault(key, f"must be true or false, but is '{values[key]}'")
    return text == "true"
