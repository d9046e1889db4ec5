"""The session in which statements are evaluated: what an installation says about Spark SQL changes none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext

from srm_common.domain.transforms.statements import Statement
from srm_common.errors import TransformFailed
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import local_master, spark_settings
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
    r"regexp_replace(CAST(value AS STRING), '\\d{16}', '****')": "card ****",
    '"masked"': "masked",
    "CAST(CAST(value AS STRING) AS INT)": None,
    "named_struct('user', value).user": "card 4111111111111111",
    "named_struct('a', 1)": "{1}",
    "map_concat(map('a', value), map('a', value))['a']": None,
    "CAST(TIMESTAMP '2024-01-01 00:00:00' AS BIGINT)": "1704067200",
}


_SCRIPT = "from tests.spark.test_sql_session import evaluated_here; evaluated_here()"


def evaluated_here() -> None:
    """Prints what each expression gives, in a Spark application of this process."""
    spark = spark_context(lambda master: spark_settings(master, 1, app_name="hostile"), local_master(1))
    statements = tuple(
        Statement("transforms.sql", f"SELECT CAST({text} AS STRING) AS value FROM records") for text in MEANT
    )
    found = SqlPasses(spark).local(statements)
    values = pa.array([b"card 4111111111111111"], pa.binary())
    given = []
    for number in range(len(statements)):
        (row,) = found.evaluate(number, {"value": values}, 1, "it").to_pylist()
        given.append(None if row is None else row["value"].decode())
    print(json.dumps(given))
    spark.stop()


def test_statements_mean_the_same_whatever_an_installation_has_set(tmp_path: Path) -> None:
    lines = [f"{key} {value}" for key, value in {**HOSTILE, **OTHERS}.items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines), encoding="utf-8")
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == list(MEANT.values())


def test_a_value_that_overflows_javas_stack_is_an_error_and_not_the_end(spark: SparkContext) -> None:
    text = r"SELECT regexp_replace(CAST(value AS STRING), '(\\d|-)+', '*') AS value FROM records"
    statements = SqlPasses(spark).local((Statement("transforms.sql", text),))

    def evaluated(value: bytes) -> list[bytes]:
        found = statements.evaluate(0, {"value": pa.array([value], pa.binary())}, 1, "transforms.sql for offset 7")
        values: list[bytes] = found.field("value").to_pylist()
        return values

    with pytest.raises(
        TransformFailed, match=r"transforms\.sql for offset 7 cannot be evaluated: .*StackOverflowError"
    ):
        evaluated(b"1-" * 300_000)
    assert evaluated(b"12-3") == [b"*"]


_LOADS = """
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import local_master, spark_settings
from srm_common.replication.spark.sql_pass import SqlPasses

spark = spark_context(lambda master: spark_settings(master, 1), local_master(1))
SqlPasses(spark)
print(spark._jsc.sc().conf().get("spark.sql.extensions.test.loadFromCp", "true"))
spark.stop()
"""


@pytest.mark.parametrize("others", [False, True], ids=["Spark's own", "another jar has some"])
def test_extensions_that_jars_bring_along_are_loaded_unless_all_are_sparks_own(tmp_path: Path, others: bool) -> None:
    jar = tmp_path / "extensions.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        provider = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
        archive.writestr(provider, "org.apache.spark.sql.ml.InternalFunctionRegistration\n")
    if others:
        (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraClassPath {jar}\n", encoding="utf-8")
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _LOADS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["true" if others else "false"]
