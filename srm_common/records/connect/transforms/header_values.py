"""The bytes of headers that transforms add, as Connect's header converters write them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from srm_common.domain.transforms.formats import HeaderConverter
from srm_common.records.connect.data.hash_map import JavaMap
from srm_common.records.connect.data.java_values import (
    DataFault,
    JavaDate,
    base64_text,
    class_name,
    date_text,
    java_text,
)
from srm_common.records.connect.data.literals import parse_literal
from srm_common.records.connect.data.schema import Struct


def header_bytes(value: Any, converter: HeaderConverter) -> bytes | None:
    """A header's bytes. ``SimpleHeaderConverter``, Connect's default, writes text as it is, numbers as text, lists and
    maps much like JSON (``Values.convertToString``); ``StringConverter`` what Java's ``toString`` gives.

    Raises:
        DataFault: the value cannot be written.
    """
    if value is None:
        return None
    text = java_text(value) if converter is HeaderConverter.STRING else _text(value, False)
    return text.encode("utf-8", "replace")


@lru_cache(maxsize=256)
def literal_bytes(literal: str, converter: HeaderConverter) -> bytes | None:
    """The bytes of a header that InsertHeader inserts: the literal is parsed, and its value is written."""
    return header_bytes(parse_literal(literal), converter)


def _text(value: Any, embedded: bool) -> str:
    if isinstance(value, str | bytes):
        text = base64_text(value) if isinstance(value, bytes) else value
        if not embedded:
            return text
        escaped = text if isinstance(value, bytes) else text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{','.join(_text(one, True) for one in value)}]"
    if isinstance(value, JavaMap):
        return "{" + ",".join(f"{_text(key, True)}:{_text(one, True)}" for key, one in value.entries()) + "}"
    if isinstance(value, Struct):
        pairs = (f"{_text(field.name, True)}:{_text(value.get(field.name), True)}" for field in value.schema.fields)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, JavaDate):
        return date_text(value)
    if value is not None and not isinstance(value, bool | int | float) and type(value).__name__ != "Decimal":
        raise DataFault(f"a header cannot have {class_name(value)}")
    return java_text(value)
