"""The text of ``.proto`` files, as protoc reads it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import grpc_tools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.protobuf.descriptors import FieldType, MessageType, linked
from srm_common.records.connect.protobuf.types import known_text
from srm_common.records.connect.registry_values import Reference
from tests.unit.records.connect import protoc
from tests.unit.records.connect.proto_schemas import proto_texts

GOOGLE = Path(next(iter(import_module("google.type").__path__))).parents[1]
EVERYTHING = r"""/* A file with all that the language has. */
syntax = "proto2"; // and a comment
package a.b . c;
import "google/protobuf/timestamp.proto";
import public "other.proto";
import 'google/protobuf/descriptor.proto';
option java_package = "x";
option (own).inner = { name: "{;}" list: [1, 2.5e3, -inf] };
option (own).note = { name: 'a' 'b'; child { deep: true } child < deep: false >, };
message Outer {
  required int32 id = 1;
  optional string name = 2 [default = "a\"\x62\143\u0064\n", deprecated = true, json_name = "n"];
  repeated sint64 numbers = 3 [packed = true];
  repeated sint64 loose = 4;
  optional Inner inner = 0x5;
  optional .a.b.c.Outer.State state = 06 [default = PAID];
  optional double most = 7 [default = -inf];
  optional float some = 8 [default = 1.5e3];
  optional uint64 large = 9 [default = 0xFFFFFFFFFFFFFFFF];
  optional bytes raw = 10 [default = "\000\377"];
  optional bool flag = 11 [default = true];
  map<string, Inner> by_name = 12;
  map < int64 , .google.protobuf.Timestamp > times = 13;
  oneof either { int32 left = 14; Inner right = 15 [deprecated = false]; group Third = 29 { optional int32 x = 1; } }
  optional group Legacy = 16 { optional int32 old = 1; }
  repeated Other others = 17;
  optional State message = 18;
  optional int32 option_like = 19 [(confluent.field_meta).params = { key: "connect.type", value: "int8" }];
  optional int32 tiny = 20 [(confluent.field_meta) = { params: [ { key: "connect.type" value: "int16" } ] }];
  extensions 100 to 199, 500;
  reserved 40, 41 to 43; reserved "gone", "away";
  message Inner { optional Outer.Inner itself = 1; optional State state = 2; enum State { A = 0; } }
  enum State { option allow_alias = true; NEW = 1; PAID = -2 [deprecated = true]; SAME = 1; reserved 7; }
  extend Outer { optional int32 more = 100; }
  ;
}
extend google.protobuf.FileOptions { optional Own own = 50000; }
message Own {
  optional string name = 1; repeated double list = 2; repeated Child child = 3;
  optional Inner inner = 4; optional Own note = 5;
  message Child { optional bool deep = 1; } message Inner { optional string name = 1; repeated double list = 2; }
}
enum Loose { ZERO = 0; }
service Api {
  option deprecated = true;
  rpc Ask (Outer) returns (stream Own) { option deprecated = true; }
  rpc B(Own) returns (Own);
}
"""
OTHER = """syntax = "proto3"; package a.b; import public "far.proto";
message Other { optional int32 x = 1; string y = 2; Far far = 3; }"""
FAR = 'syntax = "proto3"; package a.b; message Far { repeated fixed32 z = 1; repeated string s = 2; }'
LABELS = {1: "optional", 2: "required", 3: "repeated"}


def ours(message: MessageType) -> dict[str, Any]:
    return {
        "name": message.full_name,
        "fields": {field.name: field_of(field) for field in message.fields if field.kind != "group"},
        "oneofs": list(message.oneofs),
        "nested": [ours(one) for one in message.nested],
    }


def field_of(field: FieldType) -> dict[str, Any]:
    return {
        "number": field.number,
        "kind": field.kind,
        "of": field.message.full_name if field.message else field.enum.full_name if field.enum else None,
        "symbols": field.enum.numbers if field.enum else None,
        "label": "repeated" if field.repeated else "required" if field.required else "optional",
        "packed": field.packed,
        "oneof": field.oneof,
        "present": field.present,
    }


def theirs(text: str, others: dict[str, str]) -> list[dict[str, Any]]:
    files = protoc.compiled(text, others)
    assert files is not None
    enums: dict[str, dict[str, int]] = {}

    def walk(scope: str, container: Any, nested: Any) -> None:
        for one in container.enum_type:
            enums[f"{scope}.{one.name}".lstrip(".")] = {value.name: value.number for value in one.value}
        for one in nested:
            walk(f"{scope}.{one.name}", one, one.nested_type)

    for file in files.file:
        walk(f".{file.package}" if file.package else "", file, file.message_type)
    main = files.file[-1]
    proto3 = main.syntax == "proto3"

    def message(scope: str, one: Any) -> dict[str, Any]:
        full = f"{scope}.{one.name}".lstrip(".")
        groups = {field.type_name for field in one.field if field.type == 10}
        real = [place for place in range(len(one.oneof_decl)) if not synthetic(one, place)]
        return {
            "name": full,
            "fields": {field.name: described(field, real) for field in one.field if field.type != 10},
            "oneofs": [one.oneof_decl[place].name for place in real],
            "nested": [message(full, inner) for inner in one.nested_type if f".{full}.{inner.name}" not in groups],
        }

    def synthetic(one: Any, place: int) -> bool:
        return any(field.proto3_optional and field.oneof_index == place for field in one.field)

    def described(field: Any, real: list[int]) -> dict[str, Any]:
        kind = field.DESCRIPTOR.enum_types_by_name["Type"].values_by_number[field.type].name
        kind = kind.removeprefix("TYPE_").lower()
        of = field.type_name.lstrip(".") or None
        repeated = field.label == 3
        in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        scalar = kind not in ("string", "bytes", "message")
        return {
            "number": field.number,
            "kind": kind,
            "of": of,
            "symbols": enums[of] if kind == "enum" and of else None,
            "label": LABELS[field.label],
            "packed": repeated and scalar and (field.options.packed if field.options.HasField("packed") else proto3),
            "oneof": real.index(field.oneof_index) if in_oneof else None,
            "present": not in_oneof and (field.proto3_optional or (not proto3 and field.label == 1)),
        }

    return [message(main.package, one) for one in main.message_type]


def test_a_file_with_all_that_the_language_has() -> None:
    others = {"other.proto": OTHER, "far.proto": FAR}
    references = [Reference(name, text) for name, text in others.items()]
    found = linked(EVERYTHING, references)
    expected = [in_maps_last(one) for one in theirs(EVERYTHING, others)]
    assert [in_maps_last(ours(message)) for message in found.messages] == expected
    outer = {field.name: field for field in found.messages[0].fields}
    assert outer["option_like"].parameters == {"connect.type": "int8"}
    assert outer["tiny"].parameters == {"connect.type": "int16"}
    defaults = {name: outer[name].default for name in ("name", "state", "most", "some", "large", "raw", "flag")}
    assert defaults == {
        "name": 'a"bcd\n',
        "state": -2,
        "most": float("-inf"),
        "some": 1500.0,
        "large": -1,
        "raw": b"\0\xff",
        "flag": True,
    }
    assert outer["id"].default == 0


def in_maps_last(message: dict[str, Any]) -> dict[str, Any]:
    """Entries of maps are called as Confluent does it, and stand behind the messages that the text has."""
    nested = [one for one in message["nested"] if not one["name"].endswith("Entry")]
    fields = {
        name: {**one, "of": None, "present": None} if str(one["of"]).endswith("Entry") else one
        for name, one in message["fields"].items()
    }
    return message | {"nested": [in_maps_last(one) for one in nested], "fields": fields}


@given(proto_texts())
def test_any_schema_is_what_protoc_makes_of_it(text: str) -> None:
    assert [in_maps_last(ours(message)) for message in linked(text).messages] == [
        in_maps_last(one) for one in theirs(text, {})
    ]


@pytest.mark.parametrize("root", [Path(grpc_tools.__path__[0]) / "_proto", GOOGLE])
def test_files_that_others_have_written(root: Path) -> None:
    files = {str(file.relative_to(root)): file.read_text() for file in root.rglob("google/**/*.proto")}
    assert len(files) > 10
    references = [Reference(name, text) for name, text in files.items()]
    for text in files.values():
        if "edition = " not in text:
            linked(text, references)


def test_files_that_registries_know_are_googles() -> None:
    known = Path(grpc_tools.__path__[0]) / "_proto", GOOGLE
    names = {str(file.relative_to(root)) for root in known for file in root.rglob("google/**/*.proto")}
    texts = {name: text for name in names if (text := known_text(name)) is not None}
    assert len(texts) == 26
    for name, text in texts.items():
        original = next(file for root in known if (file := root / name).exists()).read_text()
        assert theirs(text, {}) == theirs(original, {}), name


MESSAGE = 'syntax = "proto3"; message M { %s }'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has a schema without the message that the record's message indexes name"),
        ("{}", r"is not Protobuf: '\{' in line 1 instead of a definition"),
        ('syntax = "proto4";', "has a schema with the syntax 'proto4'; only proto2 and proto3 are supported here"),
        ('edition = "2023"; message M {}', "has a schema that uses an edition; only proto2 and proto3"),
        ("message M {\n\n int32 x = ; }", "';' in line 3 instead of an integer"),
        ("message M {", "the end of the text in line 1"),
        ("message M { /* never closed", r"'/\* never c' in line 1 instead of Protobuf"),
        ('import "never closed', "'\"never clo' in line 1 instead of Protobuf"),
        (MESSAGE % "Absent x = 1;", "whose field M.x is of Absent, which is neither defined nor imported"),
        (MESSAGE % "int32 x = 1; int32 y = 1;", "whose message M has the number 1 twice"),
        (MESSAGE % "int32 x = 1; int32 x = 2;", "defines M.x twice"),
        (MESSAGE % "int32 x = 0;", "whose field M.x has the number 0"),
        (MESSAGE % "int32 x = 536870912;", "whose field M.x has the number 536870912"),
        (MESSAGE % "required int32 x = 1;", "whose field M.x is required, which proto3 does not allow"),
        (MESSAGE % "int32 x = 1 [default = 5];", "whose field M.x has a default, which it cannot have"),
        (
            "message M { optional int32 x = 1 [default = 1.5]; }",
            "whose field M.x has a default that is not of type int32",
        ),
        ("message M { optional uint32 x = 1 [default = -1]; }", "has a default that is not of type uint32"),
        ("message M { optional E x = 1 [default = C]; enum E { A = 0; } }", "has a default that is not of type enum"),
        (MESSAGE % "map<double, int32> x = 1;", "whose map M.x is not valid in Protobuf"),
        (MESSAGE % "enum E { }", "whose enum M.E has no symbols"),
        (MESSAGE % "enum E { A = 2147483648; }", "whose enum M.E has a number of more than 32 bits"),
        ("package " + "a." * 600 + "a; message M { }", "with a name of more than 1000 characters"),
        ("message " + "M" * 1001 + " { }", "with a name of more than 1000 characters"),
        ("message M " * 3, "instead of '{'"),
        ("message M { message M " + "{ message M " * 150, "whose messages are nested deeper than 100"),
        ("message M { optional int32 x = 1 [a = " + "{ a " * 150, "whose options are nested deeper than 100"),
        ("message M { optional int32 x = " + "9" * 5000 + "; }", "instead of an integer"),
    ],
)
def test_what_is_no_schema(text: str, reason: str) -> None:
    with pytest.raises(DataFault, match=reason):
        linked(text).at((0,))


WORDS = r"""syntax = "proto3"; message M { } [ ] ( ) < > = ; , . : - int32 x 1 2 enum oneof map optional repeated group
extend option import reserved extensions to max "a" 'b /* */ // \ 1e9 0x default service rpc returns stream package
public weak (confluent.field_meta) params é"""
PIECES = st.sampled_from([*WORDS.split(), "\n"])


@given(st.lists(PIECES, max_size=40).map(" ".join) | st.text(), st.lists(st.integers(-2, 3), max_size=3))
def test_any_text_is_a_schema_or_a_fault_of_the_record(text: str, indexes: list[int]) -> None:
    try:
        found = linked(text).at(indexes)
    except DataFault:
        return
    assert isinstance(found, MessageType)
