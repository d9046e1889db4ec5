"""The session in which statements are evaluated: what an installation says about Spark SQL changes none of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import SparkContext

from srm_common.domain.transforms.statements import Statement
from srm_common.replication.spark.sql_pass import SqlPasses

pytestmark = pytest.mark.spark

#: Each changes or refuses one of the statements below.
HOSTILE = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
#: Cannot be changed in a session, or are not known to Spark.
OTHERS = {"spark.sql.extensions": "com.example.None", "spark.sql.example": "x", "spark.sql.codegen.wholeStage": "true"}
MEANT = {
    r"regexp_replace(CAST(value AS STRING), '\\d{16}', '****')": b"card ****",
    '"masked"': b"masked",
    "CAST(CAST(value AS STRING) AS INT)": None,
    "named_struct('user', value).user": b"card 4111111111111111",
    "named_struct('a', 1)": b"{1}",
    "map_concat(map('a', value), map('a', value))['a']": None,
    "CAST(TIMESTAMP '2024-01-01 00:00:00' AS BIGINT)": b"1704067200",
}


@pytest.fixture
def hostile(spark: SparkContext) -> Iterator[SparkContext]:
    """As with a ``spark-defaults.conf`` that has these settings."""
    conf = spark._jsc.sc().conf()
    settings = {**HOSTILE, **OTHERS}
    before = {key: conf.get(key, "") for key in settings}
    for key, value in settings.items():
        conf.set(key, value)
    yield spark
    for key, value in before.items():
        conf.set(key, value) if value else conf.remove(key)


def test_statements_mean_the_same_whatever_an_installation_has_set(hostile: SparkContext) -> None:
    statements = tuple(
        Statement("transforms.sql", f"SELECT CAST({text} AS STRING) AS value FROM records") for text in MEANT
    )
    found = SqlPasses(hostile).local(statements)
    values = pa.array([b"card 4111111111111111"], pa.binary())
    for number, meant in enumerate(MEANT.values()):
        (row,) = found.evaluate(number, {"value": values}, 1, "it").to_pylist()
        assert (row and row["value"]) == meant, statements[number].text
