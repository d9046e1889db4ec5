"""Records, and transforms of their fields with settings, at random; awkward values are among them."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.kafka.connect.awkward_values import LITERALS, NAMES, NUMBERS, TEXTS
from tests.kafka.connect.transform_judge import BYTES, JSON, STRING, Case, Converted

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
