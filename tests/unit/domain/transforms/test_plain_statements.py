"""Which statements are plain, and what they say."""

from __future__ import annotations

import pytest

from srm_common.domain.transforms.plain_statements import (
    Comparison,
    IsNull,
    Junction,
    Not,
    PlainStatement,
    needs_spark,
    plain_statement,
)
from srm_common.domain.transforms.statements import Statement, StatementColumns

HEADER = "array_append(headers, named_struct('key', 'origin', 'value', CAST('é' AS BINARY))) AS headers"


def plain(text: str) -> PlainStatement | None:
    return plain_statement(Statement("transforms.sql", text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM records", PlainStatement(None, {})),
        ("select KEY, Value\nfrom Records ", PlainStatement(None, {})),
        (
            "SELECT NULL AS key, CAST('*' AS BINARY) AS value, timestamp FROM records",
            PlainStatement(None, {"key": None, "value": b"*"}),
        ),
        (f"SELECT {HEADER} FROM records", PlainStatement(None, {}, ("origin", "é".encode()))),
        (
            "SELECT * FROM records WHERE value IS NOT NULL AND NOT key IS NULL OR topic != 'a' AND (partition>=7)",
            PlainStatement(
                Junction(
                    (
                        Junction((Not(IsNull("value")), Not(IsNull("key"))), all=True),
                        Junction((Comparison("topic", "<>", "a"), Comparison("partition", ">=", 7)), all=True),
                    ),
                    all=False,
                ),
                {},
            ),
        ),
    ],
)
def test_what_a_statement_says(text: str, expected: PlainStatement) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT key",
        "SELECT key, FROM records",
        "SELECT key, KEY FROM records",
        "SELECT *, key FROM records",
        "SELECT key AS value FROM records",
        "SELECT NULL key FROM records",
        "SELECT NULL AS topic FROM records",
        "SELECT NULL AS headers FROM records",
        "SELECT CAST('a' AS STRING) AS value FROM records",
        "SELECT CAST('a' 'b' AS BINARY) AS value FROM records",
        "SELECT CAST('a''b' AS BINARY) AS value FROM records",
        r"SELECT CAST('a\'' AS BINARY) AS value FROM records",
        "SELECT CAST(r'a' AS BINARY) AS value FROM records",
        "SELECT CAST(X'41' AS BINARY) AS value FROM records",
        "SELECT CAST('${user}' AS BINARY) AS value FROM records",
        "SELECT `key` FROM records",
        "SELECT records.key FROM records",
        "SELECT key FROM records r",
        "SELECT key FROM others",
        "SELECT key FROM records LIMIT 1",
        "SELECT key FROM records -- all of them",
        "SELECT key FROM records;",
        "SELECT DISTINCT key FROM records",
        "SELECT key FROM records WHERE",
        "SELECT key FROM records WHERE key IS NULL AND",
        "SELECT key FROM records WHERE (key IS NULL",
        "SELECT key FROM records WHERE key = 'a'",
        "SELECT key FROM records WHERE headers IS NULL",
        "SELECT key FROM records WHERE topic < 'a'",
        "SELECT key FROM records WHERE topic = 3",
        "SELECT key FROM records WHERE offset = 'a'",
        "SELECT key FROM records WHERE offset = 3L",
        "SELECT key FROM records WHERE offset = 3.0",
        "SELECT key FROM records WHERE offset = 3e1",
        "SELECT key FROM records WHERE offset = -3",
        "SELECT key FROM records WHERE offset = 9223372036854775808",
        "SELECT key FROM records WHERE offset = " + "9" * 5000,
        "SELECT key FROM records WHERE 1 < offset < 3",
        "SELECT key FROM records WHERE offset <=> 3",
        "SELECT key FROM records WHERE 3 = offset",
        "SELECT key FROM records WHERE offset % 2 = 0",
        "SELECT key FROM records WHERE key IS NULL = TRUE",
        "SELECT key FROM records WHERE key2 IS NULL",
        "SELECT key\xa0FROM records",
        "SELECT key FROM records WHERE " + "(" * 100 + "key IS NULL" + ")" * 100,
        "SELECT key FROM records WHERE " + "NOT " * 2000 + "key IS NULL",
        HEADER.replace("'key'", "'name'").join(("SELECT ", " FROM records")),
        HEADER.replace("AS headers", "AS key").join(("SELECT ", " FROM records")),
        HEADER.replace("headers,", "reverse(headers),").join(("SELECT ", " FROM records")),
    ],
)
def test_all_else_is_for_spark(text: str) -> None:
    assert plain(text) is None


def test_what_is_read_and_what_is_asked_for_null_only() -> None:
    statement = plain(f"SELECT {HEADER}, NULL AS key FROM records WHERE value IS NULL OR offset > 3 OR topic = 'x'")
    assert statement is not None
    assert statement.columns == StatementColumns(
        ("offset", "topic", "value"), ("key",), ("value",), ("origin", "é".encode())
    )


def test_one_that_spark_has_to_read_takes_the_others_there() -> None:
    first, second = (Statement("x", f"SELECT {column} FROM records") for column in ("key", "upper(value) AS value"))
    assert not needs_spark([])
    assert not needs_spark([first])
    assert needs_spark([first, second])
