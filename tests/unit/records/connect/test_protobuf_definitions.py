"""Definitions of Protobuf's messages that are made of schemas of Connect."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions, Side
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.connect.protobuf.definitions import from_connect
from srm_common.records.connect.protobuf.names import map_entry, map_field, scrub_name
from srm_common.records.connect.protobuf.values import ProtobufValues
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.testing import LocalRegistry
from tests.unit.records.connect import protoc
from tests.unit.records.connect.connect_schemas import STRING, struct
from tests.unit.records.connect.registries import PROTOBUF, OneSchema, attempt, converter

struct_of = partial(struct, name="a.M")
TAG = "io.confluent.connect.protobuf.Tag"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema(Type.ARRAY, value_schema=STRING), "Protobuf has no message for Schema.ARRAY. as a whole value"),
        (
            Schema(Type.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1),
            "Protobuf has no message for Schema.org.apache.kafka.connect.data.Timestamp:INT64.",
        ),
        (
            struct_of(("l", Schema(Type.ARRAY, value_schema=Schema(Type.ARRAY, value_schema=STRING)))),
            "l is a list of lists or maps, which Protobuf does not have",
        ),
        (struct_of(("a b", STRING)), "'a b' is not a valid Protobuf name; set scrub.invalid.names of the converter"),
        (struct_of(("a = 1; int32 b", STRING)), "'a = 1; int32 b' is not a valid Protobuf name"),
        (struct_of(("a", STRING), name="x-y.M"), "'x-y' is not a valid Protobuf name"),
        (
            struct_of(("a", STRING.changed(parameters={TAG: "536870912"}))),
            r"it has a schema whose field a.M.a has the number 536870912",
        ),
        (struct_of(("a", STRING.changed(parameters={TAG: "0x"}))), "'0x' in its schema is not a valid Protobuf number"),
        (
            struct_of(("a", struct_of(("x", STRING), name="N")), ("b", struct_of(("y", STRING), name="N"))),
            r"cannot be written: a.M.N has no field y",
        ),
    ],
)
def test_schemas_that_protobuf_has_not(schema: Schema, reason: str) -> None:
    with LocalRegistry() as target:
        one = converter(PROTOBUF, target, target)
        with pytest.raises(DataFault, match=reason):
            one.encode(schema, Struct(schema) if schema.type is Type.STRUCT else 5)
        assert target.changes() == []


def test_numbers_of_fields_without_one() -> None:
    """Those that others have are left out, and those that are Protobuf's own."""
    tagged, high = STRING.changed(parameters={TAG: "2"}), STRING.changed(parameters={TAG: "5"})
    fields = [("a", STRING), ("b", tagged), ("c", STRING), ("d", tagged), ("e", STRING), ("f", high)]
    made = from_connect(struct_of(*fields), ProtobufOptions()).text
    numbers = [line.strip("string; ") for line in made.splitlines() if "=" in line]
    assert numbers[1:] == ["a = 1", "b = 2", "c = 3", "d = 4", "e = 6", "f = 5"]


@pytest.mark.parametrize("package", ["com.google", "io.confluent", "google.com"])
def test_packages_that_are_called_as_those_of_others(package: str) -> None:
    """protoc looks names up from the innermost package outwards."""
    fields = [
        ("at", Schema(Type.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)),
        ("price", Schema(Type.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})),
        ("small", Schema(Type.INT8)),
        ("maybe", Schema(Type.STRING, optional=True)),
    ]
    options = ProtobufOptions(wrappers_for_nullables=True)
    made = from_connect(struct_of(*fields, name=f"{package}.M"), options).text
    assert protoc.message_class(made, f"{package}.M")
    one = ProtobufValues.of_text(made, [], Format(FormatKind.PROTOBUF, protobuf=options))
    assert [field.schema.type for field in one.schema.fields] == [Type.INT64, Type.BYTES, Type.INT8, Type.STRING]


def test_names() -> None:
    assert [map_entry(name) for name in ("tags", "my_tags", "MY_tags")] == ["tagsEntry", "MyTagsEntry", "MyTagsEntry"]
    assert [map_field(name) for name in ("TagsEntry", "a.MyTagsEntry", "Tags")] == ["tags", "a.my_tags", "Tags"]
    scrubbed = {name: scrub_name(name) for name in ("ok_1", "", "a b", "1a", "_a", "a-b", "ä", "a*~")}
    assert scrubbed == {
        "ok_1": "ok_1",
        "": "",
        "a b": "a_b",
        "1a": "x1a",
        "_a": "x_a",
        "a-b": "a_b",
        "ä": "_C3_A4",
        "a*~": "a__7E",
    }


_TYPES = st.sampled_from([one for one in Type if one not in (Type.STRUCT, Type.ARRAY, Type.MAP)])
_NAMES = st.sampled_from(["a", "b_c", "M", "x y", "", "é", "message", None])
_PARAMETERS = st.none() | st.dictionaries(
    st.sampled_from([f"io.confluent.connect.protobuf.{one}" for one in ("Tag", "Type", "Enum", "Enum.A", "Enum.é")]),
    st.sampled_from(["0", "1", "2", "-1", "x", "sint32", "E", ""]),
    max_size=3,
)


@st.composite
def connect_schemas(draw: st.DrawFn, depth: int = 0) -> Schema:
    """Any schema of Connect."""
    parts: dict[str, Any] = {"optional": draw(st.booleans()), "name": draw(_NAMES), "parameters": draw(_PARAMETERS)}
    if depth == 0 or (depth < 3 and draw(st.booleans())):
        inner = connect_schemas(depth + 1)
        match draw(st.sampled_from([Type.STRUCT, Type.ARRAY, Type.MAP])):
            case Type.STRUCT:
                names = draw(st.lists(_NAMES.filter(bool), unique=True, max_size=3))
                if draw(st.booleans()):
                    parts["name"] = "io.confluent.connect.protobuf.Union.u"
                return Schema(Type.STRUCT, **parts, fields=[(str(name), draw(inner)) for name in names])
            case Type.ARRAY:
                return Schema(Type.ARRAY, **parts, value_schema=draw(inner))
            case _:
                return Schema(Type.MAP, **parts, key_schema=draw(inner), value_schema=draw(inner))
    return Schema(draw(_TYPES), **parts)


@given(connect_schemas(), st.booleans(), st.booleans(), st.booleans())
def test_any_schema_of_connect_is_made_or_a_fault(schema: Schema, scrub: bool, optional: bool, wrappers: bool) -> None:
    """And protoc reads what is made."""
    options = ProtobufOptions(
        scrub_names=scrub, optional_for_nullables=optional, wrappers_for_nullables=wrappers and not optional
    )
    of = RegistryConverter(
        "orders", Side.VALUE, Format(FormatKind.PROTOBUF, protobuf=options), OneSchema("PROTOBUF", "")
    )
    value: Any = Struct(schema) if schema.type is Type.STRUCT else []
    if attempt(of, schema, value) is not None:
        assert protoc.compiled(from_connect(schema, options).text) is not None
