"""Schemas of Protobuf at random, as texts that protoc takes."""

from __future__ import annotations

from hypothesis import strategies as st

SCALARS = [
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
]
WRAPPERS = ["DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value", "BoolValue"]
WRAPPERS = [f"google.protobuf.{name}" for name in (*WRAPPERS, "StringValue", "BytesValue")]
#: Types of files that every registry knows, and the files.
KNOWN = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.type.Date": "google/type/date.proto",
    "google.type.TimeOfDay": "google/type/timeofday.proto",
    "confluent.type.Decimal": "confluent/type/decimal.proto",
    **dict.fromkeys(WRAPPERS, "google/protobuf/wrappers.proto"),
}
_BLANKS = st.sampled_from(["", " ", "\n", " // it is so\n", "/* { */", "\t"])
_KEYS = [scalar for scalar in SCALARS if scalar not in ("double", "float", "bytes")]


@st.composite
def proto_texts(draw: st.DrawFn, *, known: bool = False, required: bool = True) -> str:
    """A file whose first message is ``m.Root``, and contains neither itself nor groups.

    Args:
        known: with types of other files.
        required: with required fields, in proto2.
    """
    proto3 = draw(st.booleans())
    # Each message may refer to those before it, which stand behind it or in it.
    names: list[str] = []
    texts: list[str] = []
    for place in range(draw(st.integers(1, 3))):
        texts.append(_message(draw, f"Part{place}", list(names), proto3, known, required))
        names.append(f"Part{place}")
    texts.append(_message(draw, "Root", names, proto3, known, required))
    used = {file: None for of, file in KNOWN.items() if any(of in text for text in texts)}
    imports = "".join(f'import "{file}";' for file in used)
    top = "enum Top { TOP_ZERO = 0; TOP_ONE = 1; TOP_MINUS = -1; }"
    syntax = 'syntax = "proto3";' if proto3 else 'syntax = "proto2";'
    return f"{syntax}{draw(_BLANKS)} package m;{imports}\n" + "\n".join([*reversed(texts), top])


def _message(draw: st.DrawFn, name: str, others: list[str], proto3: bool, known: bool, required: bool) -> str:
    enum = f"enum Own {{ {name.upper()}_A = 0; {name.upper()}_B = 5; {name.upper()}_C = -7; }}"
    nested = "message Nested { optional int32 n = 1; repeated string s = 2; }"
    types = [*SCALARS, *others, "Top", "Own", "Nested", f"m.{name}.Own", f".m.{name}.Nested"]
    types += KNOWN if known else []
    numbers = draw(st.lists(st.integers(1, 30) | st.integers(20_000, 536_870_911), unique=True, max_size=6))
    plain: list[str] = []
    members: list[str] = []
    for place, number in enumerate(numbers):
        of = draw(st.sampled_from(types))
        shape = draw(st.sampled_from(["plain", "optional", "repeated", "map", "oneof", "required"]))
        blank = draw(_BLANKS)
        if shape == "map":
            plain.append(f"map<{draw(st.sampled_from(_KEYS))}, {of}>{blank} f_{place} = {number};")
        elif shape == "oneof":
            members.append(f"{of} f{place}{blank} = {number};")
        else:
            label = "optional " if not proto3 else ""
            label = {"optional": "optional ", "repeated": "repeated "}.get(shape, label)
            if shape == "required" and required and not proto3:
                label = "required "
            packable = shape == "repeated" and (of in SCALARS[:13] or of in ("Top", "Own"))
            packed = draw(st.sampled_from(["", " [packed = true]", " [packed=false]"])) if packable else ""
            plain.append(f"{label}{of} f{place}{blank} ={number}{packed};")
    oneof = [f"oneof either {{ {' '.join(members)} }}"] if members else []
    parts = draw(st.permutations([*plain, *oneof, enum, nested]))
    return f"message {name} {{ {draw(_BLANKS)} {' '.join(parts)} }}"
