"""Records that come after a run: everything that tells the lag tells exactly these, and how long they have waited."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srm_common.cli.main import run
from srm_common.testing import LocalKafka
from tests.kafka.flows import write
from tests.kafka.records import eventually
from tests.kafka.services import Service

pytestmark = pytest.mark.kafka

AFTER = 17
_SAMPLE = re.compile(r"^(\w+)\{[^}]*?(?:partition=\"(\d+)\")?\} (\S+)$", re.MULTILINE)


@pytest.fixture
def service(source_kafka: LocalKafka, target_kafka: LocalKafka, tmp_path: Path, name: str) -> Iterator[Service]:
    """Serves a flow that has run once; the target's own alias is its name."""
    stem = name.replace("-", "")[-12:]
    clusters = {f"{stem}a": source_kafka, f"{stem}b": target_kafka}
    a, b = clusters
    service = Service(tmp_path, b, a, clusters, name, "127.0.0.1")
    try:
        source_kafka.create_topic(name, 2)
        write(source_kafka, name, [b"x"] * 10)
        service.copy()
        yield service
    finally:
        service.close()


def test_records_that_come_after_a_run_are_told_everywhere(
    service: Service, source_kafka: LocalKafka, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service.start()
    source, target = service.flow_name.split("->")
    eventually(lambda: service.flows() != {}, 300, "the service answers")
    write(source_kafka, name, [b"x"] * AFTER, 1)  # their timestamps are of a minute ago

    eventually(lambda: service.flows()[service.flow_name]["lag"] == AFTER, 300, "the lag is of now")
    flow = service.flows()[service.flow_name]
    assert (flow["lag_ms"] > flow["reported_ms"], flow["lag_fault"]) == (True, None)
    assert 60_000 <= flow["behind_ms"] <= flow["lag_ms"] - flow["last_run"]["finished_ms"] + 60_000
    assert flow["metrics"]["replication-records-lag"]["latest"] == AFTER

    path = f"/flows/{source}/{target}"
    (topic,) = service.get(f"{path}/topics?order=-lag")["topics"]
    assert (topic["lag"], topic["behind_ms"]) == (AFTER, flow["behind_ms"])
    partitions = service.get(f"{path}/partitions")["partitions"]
    assert [(one["position"], one["end"], one["lag"]) for one in partitions] == [(10, 10, 0), (0, AFTER, AFTER)]
    assert service.get(f"{path}/metrics/replication-records-lag")["points"][-1]["latest"] == AFTER
    for metrics in (f"cluster-metrics/{source}", f"topic-metrics/{urllib.parse.quote(f'{source}.{name}')}"):
        first = json.loads(service.read(f"/api/v1/{metrics}/replication-records-lag?target={target}"))
        assert first["metrics"][-1]["latestValue"] == AFTER

    text = service.read("/metrics").decode()
    told = {(series, partition): float(value) for series, partition, value in _SAMPLE.findall(text)}
    for series, partition in {
        "srm_flow_lag_records": "",
        "srm_topic_lag_records": "",
        "srm_partition_lag_records": "1",
        "kafka_connect_mirror_mirrorsourceconnector_replication_records_lag": "1",
    }.items():
        assert told[series, partition] == AFTER, series
    assert told["srm_flow_lag_timestamp_seconds", ""] >= flow["lag_ms"] / 1000
    assert told["srm_flow_lag_seconds", ""] >= 60

    status = _answer(capsys, "status", "--flow", service.flow_name, "--config", str(service.file))
    assert (status["lag"], [one["lag"] for one in status["partitions"]]) == (AFTER, [0, AFTER])
    assert status["behind_seconds"] >= 60
    line = next(
        one
        for one in _answer(capsys, "top", "--once", "--config", str(service.file))["flows"]
        if one["flow"] == service.flow_name
    )
    assert (line["lag"], line["asked"], line["lag_fault"]) == (AFTER, "history", None)
    assert line["behind_ms"] >= 60_000

    service.copy()
    eventually(lambda: service.flows()[service.flow_name]["lag"] == 0, 300, "a run brings it back to nothing")


def _answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "-o", "json"]) == 0
    loads: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loads
