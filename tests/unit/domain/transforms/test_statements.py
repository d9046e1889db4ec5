"""Keys for SQL over records: which statement is for which topic, and what is wrong in one sentence."""

from __future__ import annotations

import pytest

from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.formats import FormatKind
from srm_common.domain.transforms.statements import Statement, parse_statements, statement_for

QUERY = "SELECT key FROM records"


def test_named_ones_come_first_and_one_without_a_name_is_for_the_rest() -> None:
    keys = {"transforms.sql": QUERY, "transforms.sql.a": "SELECT value FROM records", "transforms.sql.a.topics": "x.*"}
    statements = parse_statements(keys)
    assert statements == (
        Statement("transforms.sql.a", "SELECT value FROM records", "x.*"),
        Statement("transforms.sql", QUERY),
    )
    assert [statement_for(topic, statements) for topic in ("x1", "y")] == [0, 1]
    assert statement_for("y", statements[:1]) is None


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT key FROM records WHERE variant_get(Avro, '$.n') IS NULL", True),
        ("SELECT key FROM records WHERE `avro` IS NULL", True),
        ("SELECT CAST('avro' AS BINARY) AS value FROM records", False),
        ("SELECT key FROM records WHERE topic = 'an avro topic' OR json IS NULL", False),
    ],
)
def test_values_are_read_as_avro_where_the_column_is_named(text: str, reads: bool) -> None:
    (statement,) = parse_statements({"transforms.sql": text}, [FormatKind.PROTOBUF])
    assert statement.reads_avro == reads
    if reads:
        with pytest.raises(
            TransformFault, match=r"reads avro, but the flow's transforms change fields of Avro"
        ) as fault:
            parse_statements({"transforms.sql.a": text}, [FormatKind.AVRO])
        assert fault.value.key == "transforms.sql.a"


def test_a_transform_of_that_name_keeps_its_keys() -> None:
    assert parse_statements({"transforms": "a, sql", "transforms.sql.type": "Filter"}) == ()


@pytest.mark.parametrize(
    ("keys", "key", "sentence"),
    [
        ({"transforms.sql": " "}, "transforms.sql", "is empty"),
        ({"transforms.sql": "DELETE FROM records"}, "transforms.sql", "is not a query"),
        ({"transforms.sql": QUERY, "transforms": "sql"}, "transforms.sql", "give that another name"),
        ({"transforms.sql.a.topics": "x"}, "transforms.sql.a.topics", "there is no statement transforms.sql.a"),
        ({"transforms.sql.a": QUERY, "transforms.sql.a.topics": "x["}, "transforms.sql.a.topics", "cannot be used"),
        ({"transforms.sql.a.b": QUERY}, "transforms.sql.a.b", "is unknown"),
    ],
)
def test_one_clear_sentence(keys: dict[str, str], key: str, sentence: str) -> None:
    with pytest.raises(TransformFault, match=sentence) as fault:
        parse_statements(keys)
    assert fault.value.key == key
