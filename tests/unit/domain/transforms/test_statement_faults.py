"""What is told of statements before Spark sees them; tests/spark/test_sql_plan.py has Spark's word on the same ones."""

from __future__ import annotations

import pytest

from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.statement_faults import statement_fault
from srm_common.domain.transforms.statements import parse_statements

WRONG = {
    "SELECT key FROM records ORDER BY key": "it sorts",
    "SELECT key FROM records GROUP BY key": "it aggregates",
    "SELECT count(*) AS key FROM records": "it aggregates",
    "SELECT key FROM records WHERE max(offset) > 3": "it aggregates",
    "SELECT DISTINCT key FROM records": "it removes duplicates",
    "SELECT key FROM records LIMIT 3": "it limits",
    "SELECT key FROM records UNION ALL SELECT key FROM records": "it unites",
    "SELECT a.key FROM records a JOIN records b": "it joins",
    "SELECT 1 AS key": "it does not read records",
    "SELECT key FORM records": "it does not read records",
    "SELECT key FROM": "FROM names nothing",
    "SELECT key FROM other": "there is no 'other'",
    "SELECT keyy FROM records": "column `keyy` cannot be resolved: records has topic, partition, ",
    "SELECT `a b` AS key FROM records": "column `a b` cannot",
    "SELECT key FROM records WHERE country = 'DE'": "column `country` cannot",
    "SELECT key FROM records WHERE NOT topic = 'a' AND nothing IS NULL": "column `nothing` cannot",
    "SELECT key FROM records WHERE (key IS NULL": "a parenthesis is not closed",
    "SELECT key FROM records WHERE key IS NULL)": "or near '\\)' .position 41., which closes nothing",
    "SELECT key FROM records WHERE topic = 'a": "begins with ' at position 38 does not end",
    "SELECT key FROM records WHER key IS NULL": "at or near 'key' .position 29.",
    "SELECT key FROM records WHERE offset =": "nothing follows =",
}
RIGHT = (
    "SELECT * FROM records",
    "select `key`, VALUE from Records r where r.topic <> 'a' -- it's (",
    "SELECT key AS value FROM records AS limit WHERE limit.key IS NOT NULL;",
    "SELECT CAST(topic IS DISTINCT FROM 'a' AS STRING) AS key FROM records",
    "SELECT topic IS DISTINCT FROM 'a' AND true AS partition_, key FROM records",
    "SELECT upper(CAST(key AS STRING)) AS key FROM records WHERE CAST(value AS STRING) LIKE '%(%' AND topic = \"it's\"",
    "SELECT key FROM records WHERE CAST(CAST(key AS STRING) AS INT) BETWEEN 1 AND offset AND true = (partition = 0)",
    "SELECT filter(headers, h -> h.key <> 'x' AND h.value IS NOT NULL) AS headers FROM records group WHERE offset > 1",
    "SELECT CASE WHEN topic = 'a' THEN key ELSE value END AS value FROM records WHERE r'\\' <> topic AND NOT false",
    "SELECT null AS key FROM records WHERE timestamp > timestamp'2020-01-01 00:00:00Z' AND x'41' = key",
    "SELECT key FROM records order WHERE exists(headers, union -> union.key = 'a')",
    "SELECT ALL key FROM records WHERE extract(YEAR FROM timestamp) = 2026",
    "SELECT key FROM records WHERE variant_get(json, '$.country', 'string') = 'DE' AND key IS NOT NULL",
    "SELECT key FROM records WHERE",
)
"""Or at least left to Spark, as the one that selects another column, and the one that names records ``where``."""


@pytest.mark.parametrize(("text", "reason"), WRONG.items())
def test_one_clear_sentence_when_the_file_is_loaded(text: str, reason: str) -> None:
    with pytest.raises(TransformFault, match=f"cannot be carried out: .*{reason}") as fault:
        parse_statements({"transforms.sql.a": text})
    assert fault.value.key == "transforms.sql.a"
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("text", RIGHT)
def test_nothing_is_said_of_what_spark_may_understand(text: str) -> None:
    assert statement_fault(text) is None
