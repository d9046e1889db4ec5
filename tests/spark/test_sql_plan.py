"""Statements over records: what Spark makes of a row, and what is refused."""

from __future__ import annotations

import random

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from srm_common.domain.transforms.statement_faults import statement_fault
from srm_common.domain.transforms.statements import Statement, StatementColumns
from srm_common.errors import ConfigError
from srm_common.replication.spark.sql_plan import COLUMNS as TYPES
from srm_common.replication.spark.sql_plan import compile_statement, with_parsed
from tests.unit.domain.transforms.test_statement_faults import RIGHT, WRONG

COLUMNS = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
_PUSHES = "org.apache.spark.sql.catalyst.optimizer.PushFoldableIntoBranches"


@pytest.fixture(scope="module")
def session(spark: SparkContext) -> SparkSession:
    session = SparkSession(spark)
    session.conf.set("spark.sql.optimizer.excludedRules", _PUSHES)
    session.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    return session


def rows(session: SparkSession, *records: tuple[object, ...]) -> DataFrame:
    return with_parsed(session.createDataFrame(records, COLUMNS), ["json"])


def statement(text: str) -> Statement:
    return Statement("transforms.sql", text)


def test_kept_dropped_and_failed_records(session: SparkSession) -> None:
    values = (b"1", b"x", b"-5", None)
    records = rows(session, *(("t", 0, at, b"k", value, None, None) for at, value in enumerate(values)))
    number = "CAST(CAST(value AS STRING) AS INT)"
    text = f"SELECT CAST({number} + 1 AS STRING) AS value, key FROM records WHERE {number} > 0"
    compiled = compile_statement(session, records, statement(text))
    assert compiled.columns == StatementColumns(("value",), ("value",))
    made = [row[0] for row in records.select(compiled.column).collect()]
    assert made == [(True, b"2", None), None, (False, None, None), (False, None, None)]


@pytest.mark.parametrize("uses", [1, 3])
def test_values_as_json(session: SparkSession, uses: int) -> None:
    """What is no JSON fails, whether Spark parses once or at each place."""
    values = (
        b'{"card":"4111","n":[1,{"a":2.50}]}',
        b"null",
        None,
        b"{",
        b"",
        b'{"card":"a","card":"b"}',
        b"\xff",
        b"7",
    )
    records = rows(session, *(("t", 0, at, b"k", value, None, None) for at, value in enumerate(values)))
    read = " || ".join(["coalesce(variant_get(json, '$.card', 'string'), '-')"] * uses)
    text = f"SELECT {read} AS value FROM records WHERE json IS NULL OR try_variant_get(json, '$.n[1].a', 'int') IS NULL"
    compiled = compile_statement(session, records, statement(text + " OR offset = 0"))
    assert compiled.columns == StatementColumns(("offset", "value"), ("value",), parsed=("json",))
    found = [row[0] and row[0].value for row in records.select(compiled.column).collect()]
    assert found == [b"4111" * uses, b"-" * uses, b"-" * uses, None, None, None, None, b"-" * uses]


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ("", True),
        (", 'cbc', 'PKCS'", True),
        (", 'GCM', 'DEFAULT', ''", True),
        (", 'ECB'", False),
        (", 'GCM', 'DEFAULT', substr(sha2(value, 256), 1, 12)", False),
    ],
)
def test_encryption_with_a_random_vector_is_refused(session: SparkSession, arguments: str, refused: bool) -> None:
    """Spark calls it deterministic, but one key would become many."""
    text = f"SELECT substr(aes_encrypt(key, '0000111122223333'{arguments}), 1) AS key FROM records"
    records = rows(session, ("t", 0, 0, b"k", b"v", None, None))
    if refused:
        with pytest.raises(ConfigError, match="aes_encrypt takes a random initialization vector"):
            compile_statement(session, records, statement(text))
    else:
        made = [records.select(compile_statement(session, records, statement(text)).column).collect() for _ in range(2)]
        assert made[0] == made[1]


def test_values_as_avro_come_as_json(session: SparkSession) -> None:
    texts = ('{"n":2.50}', "null", None, "{", '{"n":"a"}')
    given = [("t", 0, at, b"k", None if text is None else b"", None, None, text) for at, text in enumerate(texts)]
    records = with_parsed(session.createDataFrame(given, f"{COLUMNS}, avro string"), ["avro"])
    text = (
        "SELECT to_json(variant_get(avro, '$.n')) AS value FROM records WHERE avro IS NULL OR NOT is_variant_null(avro)"
    )
    compiled = compile_statement(session, records, statement(text))
    assert compiled.columns == StatementColumns(("avro", "value"), ("value",), ("value",), parsed=("avro",))
    found = [row[0] and (row[0].kept, row[0].value) for row in records.select(compiled.column).collect()]
    # The fourth is what a VARIANT does not hold.
    assert found == [(True, b"2.5"), (False, None), (True, None), None, (True, b'"a"')]


def test_a_column_of_json_is_no_part_of_records(session: SparkSession) -> None:
    records = rows(session, ("t", 0, 5, b"k", b"{", None, None))
    compiled = compile_statement(session, records, statement("SELECT * FROM records WHERE key IS NOT NULL"))
    assert compiled.columns == StatementColumns(("key",), (), ("key",))
    assert records.select(compiled.column).collect()[0][0].kept
    with pytest.raises(ConfigError, match="column 'json' is none of key, value, headers, timestamp"):
        compile_statement(session, records, statement("SELECT value AS json FROM records"))


def test_columns_that_stay_are_not_read(session: SparkSession) -> None:
    records = rows(session)
    compiled = compile_statement(session, records, statement("SELECT * FROM records r WHERE partition = 0"))
    assert compiled.columns == StatementColumns(("partition",), ())


def test_columns_in_any_case_are_those_of_records(session: SparkSession) -> None:
    """As everywhere in Spark SQL."""
    records = rows(session, ("t", 0, 5, b"k", b"v", None, None))
    text = "SELECT Timestamp, CAST(`VALUE` AS STRING) || R.Topic AS Value FROM Records AS r WHERE OFFSET > 4"
    compiled = compile_statement(session, records, statement(text))
    assert compiled.columns == StatementColumns(("offset", "topic", "value"), ("value",))
    assert records.select(compiled.column).collect()[0][0] == (True, b"vt", None)


@pytest.mark.parametrize(
    ("condition", "nulls"),
    [
        ("key IS NOT NULL AND NOT value IS NULL OR headers IS NULL", ("headers", "key", "value")),
        ("key IS NOT NULL AND length(value) > 3", ("key",)),
        ("value IS NOT NULL AND length(value) > 3 OR Value IS NULL", ()),
        ("coalesce(key, value) IS NULL", ()),
        ("isnull(key)", ("key",)),
        ("timestamp IS NULL", ()),
        ("json IS NULL AND value IS NULL AND key IS NULL", ("key",)),
    ],
)
def test_columns_that_are_only_asked_for_nulls(session: SparkSession, condition: str, nulls: tuple[str, ...]) -> None:
    records = rows(session)
    compiled = compile_statement(session, records, statement(f"SELECT partition FROM records WHERE {condition}"))
    assert compiled.columns.nulls == nulls
    assert not compiled.columns.changes


@pytest.mark.parametrize(
    ("added", "header"),
    [
        ("'key', 'a' || 'b', 'value', CAST('east' AS BINARY)", ("ab", b"east")),
        ("'key', 'a', 'value', CAST(NULL AS BINARY)", ("a", None)),
        ("'key', '', 'value', CAST('' AS BINARY)", ("", b"")),
        ("'key', CAST(NULL AS STRING), 'value', CAST('east' AS BINARY)", None),
        ("'key', 'a', 'value', key", None),
        ("'key', topic, 'value', CAST('east' AS BINARY)", None),
        ("'key', 'a' || CAST(CAST('x' AS INT) AS STRING), 'value', CAST('east' AS BINARY)", None),
    ],
)
def test_a_header_that_is_the_same_for_all(
    session: SparkSession, added: str, header: tuple[str, bytes | None] | None
) -> None:
    before = [("h", bytearray(b"1"))]
    records = rows(session, ("t", 0, 5, b"k", b"v", before, None))
    text = f"SELECT array_append(headers, named_struct({added})) AS headers FROM records WHERE value IS NOT NULL"
    compiled = compile_statement(session, records, statement(text))
    assert compiled.columns.header == header
    assert compiled.columns.changes == (("headers",) if header is None else ())
    assert ("headers" in compiled.columns.reads) == (header is None)
    row = records.select(compiled.column).collect()[0][0]
    assert row is None or row.kept
    if header is not None:
        (plain,) = session.sql(text).collect()[0]
        assert [tuple(one) for one in plain] == [*before, header]


@pytest.mark.parametrize(
    "headers",
    [
        "array_append(array(named_struct('key', 'a', 'value', key)), named_struct('key', 'b', 'value', key))",
        "array_append(slice(headers, 1, 1), named_struct('key', 'b', 'value', CAST('' AS BINARY)))",
        "array_prepend(headers, named_struct('key', 'b', 'value', CAST('' AS BINARY)))",
        "array_append(headers, CAST(NULL AS STRUCT<key: STRING, value: BINARY>))",
    ],
)
def test_other_headers_are_columns(session: SparkSession, headers: str) -> None:
    text = f"SELECT {headers} AS headers FROM records"
    compiled = compile_statement(session, rows(session), statement(text))
    assert (compiled.columns.changes, compiled.columns.header) == (("headers",), None)


def test_texts_that_are_no_moment_stay(session: SparkSession) -> None:
    text = "SELECT key FROM records WHERE CAST(key AS STRING) = 'now' AND timestamp > timestamp'2020-01-01 00:00:00Z'"
    compiled = compile_statement(session, rows(session), statement(text))
    assert compiled.columns == StatementColumns(("key", "timestamp"), ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT key FROM records ORDER BY key", "it sorts"),
        ("SELECT count(*) AS key FROM records", "it aggregates"),
        ("SELECT DISTINCT key FROM records", "it removes duplicates"),
        ("SELECT key FROM records LIMIT 3", "it limits"),
        ("SELECT key FROM records UNION ALL SELECT key FROM records", "it unites"),
        ("SELECT a.key FROM records a JOIN records b", "it joins"),
        ("SELECT explode(headers) AS key FROM records", "it makes one record into several"),
        ("SELECT key FROM records LATERAL VIEW explode(headers) t AS h", "it makes one record into several"),
        ("SELECT row_number() OVER (ORDER BY key) AS key FROM records", "it looks at several records"),
        ("SELECT key FROM records WHERE key IN (SELECT value FROM records)", "it has a subquery"),
        ("SELECT key FROM (SELECT upper(key) AS key FROM records)", "it has a query inside the query"),
        ("SELECT /*+ REPARTITION(3) */ key FROM records", "it has UnresolvedHint"),
        ("SELECT CAST(rand() AS STRING) AS key FROM records", "it is not deterministic"),
        ("SELECT key FROM records WHERE timestamp > now()", "it depends on when or by whom it is run"),
        ("SELECT CAST('now' AS TIMESTAMP) AS timestamp FROM records", "a text such as 'now' or 'today'"),
        ("SELECT key FROM records WHERE timestamp > concat('to', 'day')", "a text such as 'now' or 'today'"),
        ("SELECT timestamp /**/ 'now' AS timestamp FROM records", "timestamp 'now' stands for when it is run"),
        ('SELECT key FROM records WHERE timestamp > Date"yesterday UTC"', 'Date "yesterday UTC" stands for when'),
        ("SELECT key AS topic FROM records", "it changes topic"),
        ("SELECT key AS Topic FROM records", "it changes topic"),
        ("SELECT key, KEY FROM records", "column key appears twice"),
        ("SELECT 1 FROM records", "column '1' is none of"),
        ("SELECT 1.5 AS key FROM records", "cannot cast"),
        ("SELECT keyy FROM records", "`keyy` cannot be resolved"),
        ("SELECT key FROM other", "`other` cannot be found"),
        ("SELEC", "Syntax error at or near 'SELEC'.*line 1, pos 0"),
        ("DROP TABLE x", "it has DropTable"),
    ],
)
def test_everything_else_is_refused_in_a_sentence(session: SparkSession, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        compile_statement(session, rows(session), statement(text))
    assert str(refused.value).startswith("transforms.sql cannot be carried out: ")
    assert "\n" not in str(refused.value)


#: Of which statements are made at random, some of which mean something.
_WORDS = tuple(
    str.split(
        "key value topic offset headers json timestamp records r limit group order union count( min( upper( ( ) , , . "
        "* = <> < 1 2.5 'a' \"b\" `key` `a` NULL true user current_date AND OR NOT IS NULL IN LIKE BETWEEN AS AS "
        "SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER BY LIMIT JOIN UNION CASE WHEN THEN END OVER interval date "
        "x -> CAST( cast(1 INT -- ;"
    )
)


def _at_random(dice: random.Random) -> str:
    some = [" ".join(dice.choices(_WORDS, k=dice.randrange(most))) for most in (3, 4, 6)]
    return dice.choice(
        (
            f"SELECT key {some[0]} FROM records {some[1]} WHERE {some[2]}",
            f"SELECT {some[1]} AS key FROM records {some[0]}",
            f"SELECT key FROM {some[1]}",
            f"SELECT key FROM records {some[1]}",
            f"SELECT {some[0]} FROM records WHERE {some[2]} key IS NULL",
        )
    )


def test_spark_refuses_whatever_is_refused_before_it_is_asked(session: SparkSession) -> None:
    dice = random.Random(7)
    wrong = [*WRONG, *filter(statement_fault, (_at_random(dice) for _ in range(400)))]
    assert len(wrong) > 120
    records = rows(session)
    for text in wrong:
        with pytest.raises(ConfigError):
            print(text, "|", statement_fault(text), "|", compile_statement(session, records, statement(text)))


def test_spark_takes_what_is_left_to_it(session: SparkSession) -> None:
    for text in RIGHT:
        if "partition_" not in text:
            compile_statement(session, rows(session), statement(text))
