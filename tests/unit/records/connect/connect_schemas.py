"""Schemas of Connect in short, and those that the converter of JSON Schema makes."""

from __future__ import annotations

from typing import Any

from srm_common.records.connect.data.schema import Schema, Type
from srm_common.records.connect.json_schema.values import UNION

STRING, INT64, FLOAT64 = Schema(Type.STRING), Schema(Type.INT64), Schema(Type.FLOAT64)
OPTIONAL = Schema(Type.STRING, optional=True)
#: The parameter of schemas that are made of an enum.
ENUM = "io.confluent.connect.json.Enum"


def struct(*fields: tuple[str, Schema], **more: Any) -> Schema:
    return Schema(Type.STRUCT, fields=fields, **more)


def array(of: Schema) -> Schema:
    return Schema(Type.ARRAY, value_schema=of)


def union(*branches: Schema, **more: Any) -> Schema:
    return struct(
        *((f"{UNION}.field.{at}", one.changed(optional=True)) for at, one in enumerate(branches)), name=UNION, **more
    )
