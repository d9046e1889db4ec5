"""The preview of transforms for flows with statements: what Spark makes of the newest records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark import SparkContext

from srm_common.domain.cluster import RegistrySettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.transforms.formats import Side
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import ConfigError
from srm_common.replication.spark.sql_pass import SqlPasses
from srm_common.testing import FakeCluster, LocalRegistry
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.transforms.transform_preview import Preview, preview_transforms
from tests.kafka.flows import flow_between, properties_of
from tests.spark.test_cli_run import srm_control

pytestmark = pytest.mark.spark

NUMBER = "CAST(CAST(value AS STRING) AS INT)"
NOW = f"SELECT CAST({NUMBER} + 1 AS STRING) AS value FROM records WHERE {NUMBER} > 1"
OTHER = "SELECT key, headers, timestamp FROM records WHERE value IS NOT NULL AND offset > 2"


@pytest.fixture(scope="module")
def flow() -> Iterator[FlowSettings]:
    """A flow between two fake clusters with seven records, one of which is no number, and one a tombstone."""
    with FakeCluster(name="source") as source, FakeCluster(name="target") as target:
        source.create_topic("previewed")
        source.write("previewed", [(b"k", b"%d" % number) for number in range(5)], 0)
        source.write("previewed", [(b"k", b"x"), (b"k", None)], 0)
        yield flow_between(source, target, "previewed")


def with_statement(flow: FlowSettings, text: str) -> FlowSettings:
    return replace(flow, statements=(Statement("transforms.sql", text),))


def test_statements_are_tried_and_compared(spark: SparkContext, flow: FlowSettings) -> None:
    passes = SqlPasses(spark)

    def preview(other: str) -> Preview:
        with closing(FlowClusters(with_statement(flow, NOW))) as clusters:
            return preview_transforms(clusters, [], 10, with_statement(flow, other), sql=passes.local)

    records = {record.offset: record for record in preview(OTHER).records}
    fates = [records[offset].after.fate(records[offset].before) for offset in range(7)]
    assert fates == ["dropped", "dropped", "changed", "changed", "changed", "failed", "dropped"]
    assert records[4].after.record == replace(records[4].before, value=b"5")
    assert records[5].after.reason == "transforms.sql: fails on this record"
    assert records[5].other is not None
    assert records[5].other.record == records[5].before
    differences = Counter(record.difference for record in records.values() if record.difference)
    assert differences == {"newly dropped": 1, "written differently": 2, "no longer failed": 1}
    with pytest.raises(ConfigError, match="cannot be carried out: it sorts"):
        preview("SELECT key FROM records ORDER BY key")


def test_values_are_tried_and_shown_by_the_schemas_of_the_registry(spark: SparkContext) -> None:
    with FakeCluster(name="source") as source, FakeCluster(name="target") as target, LocalRegistry() as registry:
        number = registry.register("orders-value", '"string"')
        source.create_topic("orders")
        source.write("orders", [(b"k", b"\0" + number.to_bytes(4) + b"\x04" + text) for text in (b"DE", b"FR")], 0)
        source.write("orders", [(b"k", b"DE")], 0)
        flow = flow_between(source, target, "orders")
        flow = replace(flow, source=replace(flow.source, schema_registry=RegistrySettings((registry.url,))))
        query = "SELECT key FROM records WHERE variant_get(avro, '$', 'string') = 'DE'"
        with closing(FlowClusters(with_statement(flow, query))) as clusters:
            found = preview_transforms(clusters, [], 10, sql=SqlPasses(spark).local)
    kept, dropped, failed = sorted(found.records, key=lambda record: record.offset)
    assert [one.after.fate(one.before) for one in (kept, dropped, failed)] == ["unchanged", "dropped", "failed"]
    assert failed.after.reason is not None
    assert failed.after.reason.startswith("transforms.sql: the value is not Avro of a schema registry")
    assert found.schemas is not None
    assert kept.before.value is not None
    data = found.schemas.read(kept.topic, Side.VALUE, kept.before.value)
    assert (data and (data.text, data.format)) == ('"DE"', "avro")


def test_the_command_starts_a_spark_of_its_own(flow: FlowSettings, configuration_file: Callable[..., Path]) -> None:
    file = configuration_file(properties_of(flow))
    arguments = ("--config", str(file), "transform", "--flow", str(flow.name), "--output", "json")
    done = srm_control(*arguments, "--set", f"transforms.sql={OTHER}")
    assert done.returncode == 0, done.stderr
    loads = json.loads(done.stdout)
    assert loads["counts"] == {"unchanged": 7, "changed": 0, "dropped": 0, "failed": 0}
    assert loads["other_counts"] == {"unchanged": 3, "changed": 0, "dropped": 4, "failed": 0}
