"""Settings of transforms of fields, and what is wrong with them in one sentence."""

from __future__ import annotations

import pytest

from srm_common.domain.transforms.chain import StepKind, parse_chain
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.field_steps import (
    FIELD_TRANSFORMS,
    Cast,
    ExtractField,
    FieldStep,
    Inserted,
    InsertField,
    ReplaceField,
)
from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions, Side

KAFKA = "org.apache.kafka.connect.transforms."
JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
MASK = {"transforms": "f", "transforms.f.type": f"{KAFKA}MaskField$Value", "transforms.f.fields": "a"}


def parsed(name: str, settings: dict[str, str], formats: dict[str, str] | None = None) -> FieldStep:
    values = {"transforms": "f", "transforms.f.type": f"{KAFKA}{name}"}
    values |= {f"transforms.f.{key}": value for key, value in settings.items()}
    (step,) = parse_chain(values | (formats or {"value.format": "json", "key.format": "json"}))
    assert step.kind is StepKind.FIELDS
    assert step.fields is not None
    return step.fields


@pytest.mark.parametrize(
    ("formats", "expected"),
    [
        ({"value.format": "json"}, Format(FormatKind.JSON)),
        ({"value.format": " String "}, Format(FormatKind.STRING)),
        ({"value.format": "json", "value.converter": BYTES}, Format(FormatKind.JSON)),
        ({"value.converter": JSON}, Format(FormatKind.JSON, schemas=True)),
        ({"value.converter": STRING}, Format(FormatKind.STRING)),
        (
            {
                "value.converter": JSON,
                "value.converter.schemas.enable": "False",
                "value.converter.replace.null.with.default": "false",
                "value.converter.decimal.format": "numeric",
            },
            Format(FormatKind.JSON, False, False, True),
        ),
    ],
)
def test_formats(formats: dict[str, str], expected: Format) -> None:
    step = parsed("MaskField$Value", {"fields": "a"}, formats)
    assert (step.side, step.format, step.class_name) == (Side.VALUE, expected, "MaskField$Value")


def test_settings() -> None:
    assert parsed("Cast$Key", {"spec": " a:INT8 , b : string"}).options == Cast(
        (("a", "int8"), ("b", "string")), None, True
    )
    assert parsed("Cast$Key", {"spec": "float64"}).options == Cast((), "float64", True)
    renames = {"renames": "a:b, c:d", "exclude": "x", "replace.null.with.default": "FALSE"}
    assert parsed("ReplaceField$Value", renames).options == ReplaceField(("x",), (), (("a", "b"), ("c", "d")), False)
    inserted = {"topic.field": "t!", "static.field": "s?", "static.value": " v "}
    options = InsertField(Inserted("t", False), None, None, Inserted("s", True), "v", True)
    assert parsed("InsertField$Value", inserted).options == options
    json_schema = {
        "value.converter": JSON_SCHEMA,
        "value.converter.decimal.format": "numeric",
        "value.converter.use.optional.for.nonrequired": "true",
        "value.converter.object.additional.properties": "false",
    }
    asked = Format(FormatKind.JSON_SCHEMA, numeric_decimals=True, optional_unless_required=True, closed_objects=True)
    assert parsed("ExtractField$Value", {"field": "a"}, json_schema).format == asked
    protobuf = {
        "value.converter": PROTOBUF,
        "value.converter.enhanced.protobuf.schema.support": "true",
        "value.converter.scrub.invalid.names": "true",
        "value.converter.int.for.enums": "true",
        "value.converter.optional.for.nullables": "true",
        "value.converter.optional.for.proto2": "false",
        "value.converter.wrapper.for.nullables": "true",
        "value.converter.wrapper.for.raw.primitives": "false",
        "value.converter.generate.struct.for.nulls": "true",
        "value.converter.generate.index.for.unions": "false",
        "value.converter.flatten.unions": "true",
    }
    told = ProtobufOptions(True, True, True, True, False, True, False, True, False, True)
    assert parsed("ExtractField$Value", {"field": "a"}, protobuf).format == Format(FormatKind.PROTOBUF, protobuf=told)
    plainly = parsed("ExtractField$Value", {"field": "a"}, {"value.converter": PROTOBUF})
    assert plainly.format == Format(FormatKind.PROTOBUF)
    by_name = parsed("ExtractField$Value", {"field": "a"}, {"value.format": "json-schema"})
    assert by_name.format == Format(FormatKind.JSON_SCHEMA)
    key = parsed("ValueToKey", {"fields": "a"}, {"value.format": "json", "key.converter": STRING})
    assert (key.format, key.key_format) == (Format(FormatKind.JSON), Format(FormatKind.STRING))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.b", ("a", "b")),
        ("a.", ("a", "")),
        (".a", ("", "a")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b.c`", ("a", "b.c")),
        ("`a`b`.c", ("a`b", "c")),
        (r"`a\`.b`.c", ("a`.b", "c")),
        ("a`b.c", ("a`b", "c")),
    ],
)
def test_paths_of_nested_fields(text: str, path: tuple[str, ...]) -> None:
    """KIP-821."""
    settings = {"field": text, "field.syntax.version": "V2"}
    assert parsed("ExtractField$Value", settings).options == ExtractField(path, True)
    assert parsed("ExtractField$Value", {"field": text}).options == ExtractField((text,), True)


@pytest.mark.parametrize(
    ("changed", "key", "reason"),
    [
        ({}, "value.format", "does not say what values are, which transforms.f.type looks into: set it to json, "),
        ({"value.format": "bytes"}, "value.format", "does not say what values are"),
        ({"value.converter": BYTES}, "value.converter", "does not say what values are"),
        (
            {"value.format": "xml"},
            "value.format",
            "is 'xml', but must be json, avro, json-schema, protobuf, string or bytes",
        ),
        (
            {"value.converter": PROTOBUF, "value.converter.generalized.sum.type.support": "true"},
            "value.converter.generalized.sum.type.support",
            "is 'true', but only false is carried out here",
        ),
        (
            {"value.converter": PROTOBUF, "value.converter.skip.known.types": "false"},
            "value.converter.skip.known.types",
            "is 'false', but only true is carried out here",
        ),
        (
            {"value.converter": PROTOBUF, "value.converter.flatten.unions": "x"},
            "value.converter.flatten.unions",
            "must be true or false, but is 'x'",
        ),
        (
            {"value.converter": JSON_SCHEMA, "value.converter.preserve.additional.properties": "true"},
            "value.converter.preserve.additional.properties",
            "is 'true', but only false is carried out here",
        ),
        (
            {"value.converter": JSON_SCHEMA, "value.converter.flatten.singleton.unions": "false"},
            "value.converter.flatten.singleton.unions",
            "is 'false', but only true is carried out here",
        ),
        (
            {"value.converter": JSON_SCHEMA, "value.converter.use.optional.for.nonrequired": "x"},
            "value.converter.use.optional.for.nonrequired",
            "must be true or false, but is 'x'",
        ),
        (
            {"value.converter": AVRO, "value.converter.use.latest.version": "true"},
            "value.converter.use.latest.version",
            "is 'true', but only false is carried out here",
        ),
        (
            {"value.converter": AVRO, "value.converter.value.subject.name.strategy": "x.RecordNameStrategy"},
            "value.converter.value.subject.name.strategy",
            "is 'x.RecordNameStrategy', but new schemas are registered by TopicNameStrategy only",
        ),
        ({"value.converter": "com.example.Mine"}, "value.converter", "is 'com.example.Mine', a Java class that is not"),
        ({"value.format": "json", "value.converter": JSON}, "value.format", "is 'json', but value.converter names a"),
        ({"value.converter": JSON, "value.converter.schemas.enable": "x"}, "value.converter.schemas.enable", "must be"),
        ({"value.converter": JSON, "value.converter.decimal.format": "x"}, "value.converter.decimal.format", "must be"),
        ({"value.converter": JSON, "value.converter.schema.content": "{}"}, "value.converter.schema.content", "is for"),
        ({"transforms.f.type": f"{KAFKA}MaskField"}, "transforms.f.type", "is MaskField, but must be MaskField.Key or"),
        (
            {"transforms.f.type": f"{KAFKA}ValueToKey$Key"},
            "transforms.f.type",
            "is ValueToKey.Key, but must be ValueTo",
        ),
    ],
)
def test_wrong_formats(changed: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(TransformFault, match=reason) as raised:
        parse_chain(MASK | changed)
    assert raised.value.key == key


@pytest.mark.parametrize(
    ("name", "settings", "key", "reason"),
    [
        ("MaskField$Key", {}, "fields", "is missing: the fields to mask"),
        ("MaskField$Key", {"fields": "a", "replacement": " "}, "replacement", "must not be empty"),
        (
            "MaskField$Key",
            {"fields": "a", "replace.null.with.default": "x"},
            "replace.null.with.default",
            "must be true",
        ),
        ("Cast$Key", {}, "spec", "is missing: fields and their types"),
        ("Cast$Key", {"spec": "a:bytes"}, "spec", "has 'a:bytes', but types are int8, int16"),
        ("Cast$Key", {"spec": "a:b:int8"}, "spec", "has 'a:b:int8', but types are"),
        ("Cast$Key", {"spec": "int8, a:int8"}, "spec", "has a type for all fields besides others"),
        ("ExtractField$Key", {}, "field", "is missing"),
        ("ExtractField$Key", {"field": "a", "field.syntax.version": "V3"}, "field.syntax.version", "must be V1 or V2"),
        ("ExtractField$Key", {"field": "`a", "field.syntax.version": "V2"}, "field", "is '`a', which has a backtick"),
        ("HeaderFrom$Key", {"fields": "a", "headers": "b, c", "operation": "move"}, "headers", "has 2 names, but"),
        ("HeaderFrom$Key", {"fields": "a", "headers": "b"}, "operation", "is missing: one of move, copy"),
        ("HeaderFrom$Key", {"fields": "a", "headers": "b", "operation": "cut"}, "operation", "is 'cut', but must be"),
        ("HoistField$Key", {}, "field", "is missing"),
        ("InsertField$Key", {}, "topic.field", "is missing, as are the other fields"),
        ("InsertField$Key", {"offset.field": "o"}, "offset.field", "is for sink connectors"),
        ("InsertField$Key", {"static.field": "s"}, "static.value", "is missing"),
        ("ReplaceField$Key", {"renames": "a"}, "renames", "has 'a', which is not a pair"),
        ("ReplaceField$Key", {"blacklist": "a"}, "blacklist", "is not known to Kafka 4 any more: it is called exclude"),
        ("SetSchemaMetadata$Key", {}, "schema.name", "is missing, as is schema.version"),
        ("SetSchemaMetadata$Key", {"schema.version": "x"}, "schema.version", "must be an integer"),
        ("TimestampConverter$Key", {}, "target.type", "is missing: one of string, unix, Date, Time, Timestamp"),
        ("TimestampConverter$Key", {"target.type": "string"}, "format", "is missing: the pattern"),
        (
            "TimestampConverter$Key",
            {"target.type": "unix", "format": "YYYY"},
            "format",
            "cannot be used: 'Y' stands for",
        ),
        (
            "TimestampConverter$Key",
            {"target.type": "unix", "format": "b"},
            "format",
            "cannot be used: 'b' means nothing",
        ),
        ("TimestampConverter$Key", {"target.type": "unix", "format": "'x"}, "format", "cannot be used: a quote is not"),
        (
            "TimestampConverter$Key",
            {"target.type": "unix", "unix.precision": "s"},
            "unix.precision",
            "is 's', but must",
        ),
        ("ValueToKey", {}, "fields", "is missing"),
    ],
)
def test_wrong_settings(name: str, settings: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(TransformFault, match=reason) as raised:
        parsed(name, settings)
    assert raised.value.key == f"transforms.f.{key}"


def test_all_of_kafka_are_known() -> None:
    assert len(FIELD_TRANSFORMS) == 11
