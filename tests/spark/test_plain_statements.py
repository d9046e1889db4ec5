"""Plain statements mean to a slot what they mean to Spark, records and refusals alike."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.plain_statements import plain_statement
from srm_common.domain.transforms.statements import Statement
from srm_common.records.plain_statement import PlainStatements
from srm_common.records.sql_statement import SqlStatement
from srm_common.replication.slots.range_transforms import SqlAccess
from srm_common.replication.spark.sql_pass import SqlPasses
from srm_common.wire.reencoding.columns import SCHEMA, encoded_header

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = [pytest.mark.spark]

ROWS = 40
STATEMENTS = 25


def records(dice: random.Random) -> pa.RecordBatch:
    def some() -> bytes | None:
        return dice.choice((None, b"", b"a", b"\xff\0"))

    counts = [dice.randrange(3) for _ in range(ROWS)]
    columns = [
        pa.array(sorted(dice.sample(range(100), ROWS)), pa.int64()),
        pa.array([dice.choice((-1, 0, 1_795_417_285_470)) for _ in range(ROWS)], pa.int64()),
        pa.array([some() for _ in range(ROWS)], pa.binary()),
        pa.array([some() for _ in range(ROWS)], pa.binary()),
        pa.array(counts, pa.int32()),
        pa.array([b"".join(encoded_header("h", some()) for _ in range(count)) for count in counts], pa.binary()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def condition(dice: random.Random, depth: int = 3) -> str:
    kind = dice.randrange(7 if depth else 3)
    if kind == 0:
        return f"{dice.choice(('key', 'VALUE'))} IS {dice.choice(('NOT ', ''))}NULL"
    if kind == 1:
        number = dice.choice((0, 3, 50, 99, 2**31, 2**63 - 1))
        operator = dice.choice(("=", "<>", "!=", "<", "<=", ">", ">="))
        return f"{dice.choice(('partition', 'offset'))} {operator} {number}"
    if kind == 2:
        return f"topic {dice.choice(('=', '<>', '!='))} '{dice.choice(('orders', 'Orders', 'é'))}'"
    if kind == 3:
        return f"NOT {condition(dice, depth - 1)}"
    if kind == 4:
        return f"({condition(dice, depth - 1)})"
    # Without parentheses: which of them binds tighter is Spark's to say.
    return f"{condition(dice, depth - 1)} {('AND', 'OR')[kind - 5]} {condition(dice, depth - 1)}"


def statement(dice: random.Random) -> Statement:
    items = [
        dice.choice(("key", "NULL AS key", "CAST('k' AS BINARY) AS key")),
        dice.choice(("value", "null as VALUE", "cast('' as binary) as value")),
        dice.choice(
            ("headers", "array_append(headers, named_struct('key', 'ö', 'value', CAST('1' AS BINARY))) AS headers")
        ),
        *("topic", "partition", "offset", "timestamp"),
    ]
    chosen = dice.sample(items, dice.randrange(1, len(items)))
    select = dice.choice((", ".join(chosen), "*"))
    where = f" WHERE {condition(dice)}" if dice.random() < 0.9 else ""
    return Statement("transforms.sql", f"SELECT {select} FROM records{where}")


def applied(access: SqlAccess, number: int, one: Statement, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = access.columns(number)
    return SqlStatement(one, number, columns, TopicPartition("orders", 3), access.evaluate)(batch)


def test_a_slot_and_spark_make_the_same_of_records(spark: SparkContext) -> None:
    dice = random.Random(11)
    statements = tuple(statement(dice) for _ in range(STATEMENTS))
    assert all(plain_statement(one) is not None for one in statements)
    here, there = PlainStatements(statements), SqlPasses(spark).local(statements)
    kept = 0
    for number, one in enumerate(statements):
        batch = records(dice)
        assert applied(here, number, one, batch).equals(applied(there, number, one, batch)), one.text
        kept += applied(here, number, one, batch).num_rows
    assert 0 < kept < ROWS * STATEMENTS
