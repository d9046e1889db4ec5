"""Records and settings for transforms of fields: awkward ones by hand, others at random."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.kafka.transform_judge import BYTES, JSON, STRING, Case, Converted

#: "Aa" and "BB" have the same hash code in Java.
NAMES = ("a", "b", "Aa", "BB", "id", "nested", "list", "ts", "ü", "a.b", "x`y")
TEXTS = (
    "",
    "abc",
    "12",
    "-128",
    "300",
    "+7",
    " 5",
    "1.5",
    "1e3",
    "true",
    "TRUE",
    "NaN",
    "0x1p3",
    "2024-02-29",
    "😀",
    'a\x1f"\\\n/',
)
NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "127",
    "128",
    "-129",
    "32768",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "1.0",
    "-0.0",
    "1.50",
    "0.001",
    "0.0001",
    "1e7",
    "12345678.9",
    "1E400",
    "-1e-400",
    "1e21",
    "3.4028236e38",
    "0.1",
    "100.25",
    "1.7e-5",
    "1700000000123",
    "-62135769600000",
    "86400000",
]
DOCUMENTS = (
    b"",
    b" \n",
    b"null",
    b"true",
    b"12",
    b"007",
    b"-00.5",
    b"12x",
    b"truex",
    b"null]",
    b'"text" and more',
    b'{"a":1} trailing',
    b'{"a":1}{"b":2}',
    b'{"a":1,}',
    b"[1,]",
    b"[1 2]",
    b"{'a':1}",
    b"{a:1}",
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":.5}',
    b'{"a":5.}',
    b'{"a":+5}',
    b'{"a":01,"b":[00,-01.50,0]}',
    b'{"a":1,"a":2,"b":3}',
    b'{"b":1,"a":2,"b":[]}',
    b'{"a":"\x01"}',
    b'{"a":"\t"}',
    b'{"a":"\\x"}',
    b'{"a":"\\u00e9\\ud83d\\ude00\\/\\b\\f\\u001f"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\ude00\\ud83d"}',
    b'{"\\ud800":1}',
    b'{"a":"\xff"}',
    b'{"a":1}\xff',
    b'{"a":"\xed\xa0\x80"}',
    b'\xef\xbb\xbf{"a":1}',
    '{"a":"ü"}'.encode("utf-16-le"),
    '{"a":"ü"}'.encode("utf-16"),
    '{"a":"ü"}'.encode("utf-16-be"),
    '{"a":"ü"}'.encode("utf-32-be"),
    '{"a":"ü"}'.encode("utf-32"),
    '{"a":"\x7f\u2028\u00a0"}'.encode(),
    b'{"a":' + b"9" * 1000 + b"}",
    b'{"a":' + b"9" * 1001 + b"}",
    b'{"a":1.' + b"9" * 998 + b"}",
    b'{"a":1.' + b"9" * 999 + b"}",
    b'{"":1,"a":{"":{}}}',
    b"/* c */ {}",
    b'{"a":[[],{},[{"b":null}]]}',
)

#: What ``Values.parseString`` takes for numbers, times, lists and maps, and what it does not.
LITERALS = (
    "",
    " ",
    "east",
    " east ",
    "null",
    " null ",
    "nullx",
    "Null",
    "true",
    "TRUE",
    "false}",
    "true,false",
    "007",
    "-0",
    "+5",
    "1.50",
    "0.0",
    "0.10",
    "-0.0",
    "1.0",
    "1.",
    ".5",
    "+.5",
    "1e3",
    "1E-3",
    "1e30",
    "1e400",
    "-1e400",
    "1e-400",
    "1e2147483647",
    "1e2147483648",
    "1e-2147483647",
    "1e-2147483648",
    "1e99999999999",
    "127",
    "128",
    "-129",
    "32768",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854775808.5",
    "-9223372036854775809",
    "12345678901234567890123",
    "10000000000000000000.0",
    "12345678.123",
    "16777217.5",
    "3.5e38",
    "0.000001",
    "1_000",
    "0x10",
    "1L",
    "NaN",
    "Infinity",
    "5 apples",
    "10.0.0.1",
    "10.0.0.1:9092",
    "8080,foo",
    "12:30",
    "12:30:15",
    "12:30:15.250Z",
    "12:30:15.2507",
    "12\\:30\\:15.250Z",
    "2024-02-29",
    "2024-02-30",
    "2024-13-01",
    "2024-2-29x",
    "2024-02-29T12:30:15.250Z",
    "2024-02-29T12:30:15.250",
    "1969-12-31",
    "1970-01-01",
    "1970-01-01T00:00:00.000Z",
    "1970-01-02",
    "1970-01-01T23:59:59.999Z",
    "00:00:00.000Z",
    "12:30:15.250Z and",
    '"x"',
    '"',
    "'x'",
    '"null"',
    '"2024-02-29"',
    "[]",
    "[ ]",
    "[1]",
    "[1,2,3]",
    "[ 1 , 2 ]",
    "[1,2] and more",
    "[1,2",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[null]",
    "[null,null]",
    "[1,null]",
    "[1,300]",
    "[300,1]",
    "[1,1.5]",
    "[1.5,1]",
    "[1e300,1,0.1]",
    '[1,"a"]',
    '[1,"a",2]',
    "[a]",
    '["a","b"]',
    '["a\\"b"]',
    '["a\\\\"]',
    '["a,b",":"]',
    '["2024-02-29","2024-03-01"]',
    '["2024-02-29",1]',
    '[1,"2024-02-29"]',
    '[100000,"2024-02-29"]',
    '["2024-02-29",100000]',
    '["2024-02-29","12:30:15.250Z"]',
    '["12:30:15.250Z",90000000]',
    '["12:30:15.250Z",1]',
    "[2024-02-29]",
    '["2024-02-29T12:30:15.250Z",1]',
    "[12:30:15.250Z]",
    "[true,false]",
    "[true,1]",
    "[[1],[2]]",
    '[[1],["a"]]',
    "[[],[1]]",
    '[{},{"a":1}]',
    "[9223372036854775808,1]",
    "[9223372036854775808,9223372036854775809]",
    "{}",
    "{ }",
    '{"a":1}',
    '{"a":1,"b":2}',
    '{"a":1 "b":2}',
    "{a:1}",
    "{1:2}",
    '{1:"a",2.5:"b"}',
    "{true:1,1:2}",
    '{"a":null}',
    '{"a":null,"b":1}',
    "{null:1}",
    '{"a":}',
    '{"a"}',
    '{"a":1,}',
    "{,}",
    '{"a":{"b":[1,2.5]}}',
    "{16777217:1,1.5:2,16777216:3}",
    "{[1]:2,[1]:3}",
    '{"a":1,"a":2}',
    '{"a":1} trailing',
    "{1.0:1,1:2}",
    '{"2024-02-29":1,"a":2}',
    "a:b",
    "a,b",
    "a[0]",
    "\\",
    "\\[1]",
    "[\\,]",
    "ü€😀",
    '["ü😀"]',
    "٣",
    "[٣]",
    "\U0001d7d9",
    "\u00a01",
    "1\u00a0",
    "\u20031",
    "-",
    "+",
    "--1",
    "- 1",
    "[-]",
    "\t7\n",
    "[[[[[1]]]]]",
    "[ null , 1 ]",
)

T = TypeVar("T")


class Draws:
    """Random JSON, schemas and the data that fit them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choice(self, among: Sequence[T]) -> T:
        return self._random.choice(among)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def names(self, most: int = 5) -> list[str]:
        return self._random.sample(NAMES, self._random.randint(0, most))

    def text(self) -> str:
        return json.dumps(self.choice(TEXTS), ensure_ascii=self.chance(0.5))

    def value(self, depth: int = 2) -> str:
        kinds = ["numbers", "texts", "words", "objects", "lists"]
        match self.choice(kinds if depth else kinds[:3]):
            case "numbers":
                return self.choice(NUMBERS)
            case "texts":
                return self.text()
            case "words":
                return self.choice(("true", "false", "null"))
            case "objects":
                return self.object(depth - 1)
        return f"[{','.join(self.value(depth - 1) for _ in range(self._random.randint(0, 3)))}]"

    def literal(self) -> str:
        """Pieces of literals, much of which is none."""
        if self.chance(0.4):
            return self.choice(LITERALS)
        pieces = (*NUMBERS, *LITERALS, *'[]{}[]{},,::""  \\', '"a"', "a", "1,", '"a":', "null", "true")
        inner = "".join(self.choice(pieces) for _ in range(self._random.randint(1, 6)))
        return self.choice((inner, f"[{inner}]", f"{{{inner}}}", f"[{inner},{self.choice(LITERALS)}]"))

    def object(self, depth: int = 2) -> str:
        names = self.names()
        if self.chance(0.1):
            names += [f"n{number}" for number in range(self._random.randint(3, 40))]
        return "{" + ",".join(f"{json.dumps(name)}:{self.value(depth)}" for name in names) + "}"

    def schema(self, depth: int = 2) -> dict[str, Any]:
        simple = [
            "boolean",
            "int8",
            "int16",
            "int32",
            "int64",
            "float",
            "double",
            "bytes",
            "string",
            "Decimal",
            "Date",
            "Time",
            "Timestamp",
        ]
        of = self.choice([*simple, *(["struct", "array", "map"] if depth else ())])
        schema: dict[str, Any]
        if of == "struct":
            schema = {"type": of, "fields": [{"field": name} | self.schema(depth - 1) for name in self.names()]}
        elif of == "array":
            schema = {"type": of, "items": self.schema(depth - 1)}
        elif of == "map":
            keys = {"type": self.choice(("string", "int32", "int64", "boolean")), "optional": False}
            schema = {"type": of, "keys": keys, "values": self.schema(depth - 1)}
        elif of[0].isupper():
            base = {"Decimal": "bytes", "Timestamp": "int64"}.get(of, "int32")
            schema = {"type": base, "name": f"org.apache.kafka.connect.data.{of}", "version": 1}
            if of == "Decimal":
                schema["parameters"] = {"scale": self.choice(("0", "2", "-1"))}
        else:
            schema = {"type": of}
            if self.chance(0.1):
                schema |= {"name": "com.example.Some", "version": 3, "doc": "ü", "parameters": {"p": "q"}}
        if self.chance(0.5):
            schema["optional"] = self.chance(0.7)
        if self.chance(0.25) and of not in ("struct", "map"):
            schema["default"] = json.loads(self.fitting(schema))
        return schema

    def struct_schema(self) -> dict[str, Any]:
        """Mostly of a struct."""
        for _ in range(8):
            schema = self.schema(2)
            if schema["type"] == "struct" or self.chance(0.03):
                break
        return schema

    def fitting(self, schema: Mapping[str, Any]) -> str:
        """Mostly."""
        if self.chance(0.02):
            return self.value(1)
        if schema.get("optional") and self.chance(0.25):
            return "null"
        match schema.get("name", "").rpartition(".")[2] or schema["type"]:
            case "boolean":
                return self.choice(("true", "false"))
            case "int8" | "int16" | "int32" | "int64" | "Timestamp":
                return self.choice([number for number in NUMBERS if number.lstrip("-").isdigit()])
            case "Date":
                return self.choice(("0", "19782", "-141428", "-1"))
            case "Time":
                return self.choice(("0", "1", "86399999", "86400000", "45296123"))
            case "float" | "double":
                return self.choice(NUMBERS)
            case "Decimal":
                data = self.choice((b"\0", b"\x01", b"\xff", b"\x7f\xff", b"\x80\0"))
                return json.dumps(base64.b64encode(data).decode()) if self.chance(0.7) else self.choice(NUMBERS)
            case "bytes":
                return json.dumps(self.choice(("", "AAE=", "/+8=", "AAE", "AA==AA==", "QUJD\nQUJD")))
            case "struct":
                fields = [
                    f"{json.dumps(one['field'])}:{self.fitting(one)}" for one in schema["fields"] if self.chance(0.9)
                ]
                return "{" + ",".join(fields) + "}"
            case "array":
                return f"[{','.join(self.fitting(schema['items']) for _ in range(self._random.randint(0, 3)))}]"
            case "map" if schema["keys"]["type"] == "string":
                return "{" + ",".join(f"{json.dumps(n)}:{self.fitting(schema['values'])}" for n in self.names()) + "}"
            case "map":
                pairs = (f"[{self.fitting(schema['keys'])},{self.fitting(schema['values'])}]" for _ in self.names())
                return f"[{','.join(pairs)}]"
        return self.text()

    def converted(self) -> Converted:
        """A key or value in JSON with its schema or without, or as text."""
        if self.chance(0.1):
            return Converted(self.choice(TEXTS).encode(), STRING)
        if self.chance(0.5):
            data = self.object().encode() if self.chance(0.9) else self.value().encode()
            return Converted(None if self.chance(0.02) else data, JSON, {"schemas.enable": "false"})
        settings = {"decimal.format": self.choice(("BASE64", "numeric"))}
        settings["replace.null.with.default"] = self.choice(("true", "false"))
        schema = self.struct_schema()
        text = f'{{"schema":{json.dumps(schema)},"payload":{self.fitting(schema)}}}'
        return Converted(None if self.chance(0.02) else text.encode(), JSON, settings)

    def listed(self) -> str:
        return ",".join(self.names(3)) or "a"

    def flag(self, settings: dict[str, str]) -> dict[str, str]:
        return settings | ({"replace.null.with.default": self.choice(("true", "false"))} if self.chance(0.5) else {})


def _cast(draws: Draws) -> dict[str, str]:
    types = ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"]
    if draws.chance(0.2):
        return draws.flag({"spec": draws.choice(types)})
    return draws.flag({"spec": ",".join(f"{name}:{draws.choice(types)}" for name in draws.names(4) or ["a"])})


def _extract_field(draws: Draws) -> dict[str, str]:
    paths = (*NAMES, "nested.a", "`a.b`", "`a.b`.nested", "nested.`a.b`", "a.", "nested.nested.id")
    version = draws.choice(({}, {"field.syntax.version": "V2"}, {"field.syntax.version": "v1"}))
    return draws.flag({"field": draws.choice(paths)} | version)


def _header_from(draws: Draws) -> dict[str, str]:
    fields = draws.names(3) or ["a"]
    headers = ",".join(f"h{number % 2}" for number in range(len(fields)))
    return draws.flag({"fields": ",".join(fields), "headers": headers, "operation": draws.choice(("move", "copy"))})


def _insert_field(draws: Draws) -> dict[str, str]:
    settings = {"static.field": "static", "static.value": draws.choice(TEXTS)}
    for name in ("topic", "partition", "timestamp"):
        if draws.chance(0.5):
            settings[f"{name}.field"] = draws.choice((*NAMES, name)) + draws.choice(("", "?", "!"))
    return draws.flag(settings)


def _mask_field(draws: Draws) -> dict[str, str]:
    texts = ("***", "0", "-1", "1.5", "1e3", "300", "99999999999999999999", "abc")
    return draws.flag({"fields": draws.listed()} | ({"replacement": draws.choice(texts)} if draws.chance(0.5) else {}))


def _replace_field(draws: Draws) -> dict[str, str]:
    settings: dict[str, str] = {}
    if draws.chance(0.5):
        settings["exclude"] = draws.listed()
    if draws.chance(0.3):
        settings["include"] = draws.listed()
    if draws.chance(0.6):
        settings["renames"] = ",".join(f"{name}:{draws.choice(('a', 'new', 'x', 'y'))}" for name in draws.names(3))
    return draws.flag(settings)


def _set_schema_metadata(draws: Draws) -> dict[str, str]:
    names = ("com.example.Other", "org.apache.kafka.connect.data.Timestamp")
    settings = {"schema.name": draws.choice(names)} if draws.chance(0.7) else {"schema.version": "7"}
    return draws.flag(settings)


def _timestamp_converter(draws: Draws) -> dict[str, str]:
    patterns = ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyy-MM-dd", "yyyyMMddHHmmss", "EEE, d MMM yyyy hh:mm a")
    settings = {"target.type": draws.choice(["string", "unix", "Date", "Time", "Timestamp"])}
    settings["format"] = draws.choice(patterns)
    if draws.chance(0.7):
        settings["field"] = draws.choice(NAMES)
    if draws.chance(0.5):
        settings["unix.precision"] = draws.choice(["seconds", "milliseconds", "microseconds", "nanoseconds"])
    return draws.flag(settings)


SETTINGS: dict[str, Callable[[Draws], dict[str, str]]] = {
    "Cast": _cast,
    "ExtractField": _extract_field,
    "Flatten": lambda draws: draws.choice(({}, {"delimiter": "_"}, {"delimiter": ""})),
    "HeaderFrom": _header_from,
    "HoistField": lambda draws: {"field": draws.choice(NAMES)},
    "InsertField": _insert_field,
    "MaskField": _mask_field,
    "ReplaceField": _replace_field,
    "SetSchemaMetadata": _set_schema_metadata,
    "TimestampConverter": _timestamp_converter,
    "ValueToKey": lambda draws: draws.flag({"fields": draws.listed()}),
}


def step(draws: Draws, name: str, side: str) -> tuple[str, dict[str, str]]:
    """A transform and settings of it."""
    return (name if name == "ValueToKey" else f"{name}${side}"), SETTINGS[name](draws)


def case(draws: Draws, name: str) -> Case:
    """A record and one transform."""
    if name == "ValueToKey":
        key = Converted(None, draws.choice((JSON, STRING)), {"schemas.enable": draws.choice(("true", "false"))})
        key = key if key.converter == JSON else Converted(None, STRING)
        return Case([step(draws, name, "Value")], draws.converted(), key)
    side = draws.choice(("Key", "Value"))
    own = draws.converted()
    other = Converted(b"\0 left alone", BYTES)
    steps = [step(draws, name, side)]
    return Case(steps, other, own) if side == "Key" else Case(steps, own, other)
