"""``srm-control run``: a flow from its file to the other cluster, without Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import LocalKafka, ReservedPort
from tests.kafka.flows import flow_between, properties_of, read, write

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def srm_control(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "srm_common.cli.main", *arguments],
        env={key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
        | {"PYTHONPATH": str(ROOT)}
        | environment,
        capture_output=True,
        text=True,
        timeout=150,
    )


def run(configuration: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    done = srm_control("run", "--config", str(configuration), "--output", "json", *arguments, **environment)
    return done.returncode, json.loads(done.stdout)


def test_it_makes_topics_ready_copies_and_tells(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, configuration_file: Callable[..., Path]
) -> None:
    source_kafka.create_topic(name, 2)
    flow = flow_between(source_kafka, target_kafka, name)
    configuration = configuration_file(properties_of(flow) | {f"{flow.name}.emit.heartbeats.enabled": "true"})
    write(source_kafka, name, [b"v%d" % number for number in range(500)], 1)
    history = f"sqlite:///{configuration.parent}/metrics.db"
    # Whatever the JVM prints, standard output has the answer alone.
    code, answer = run(
        configuration,
        *("--flow", str(flow.name)),
        SRM_DATABASE=history,
        SPARK_SUBMIT_OPTS="-XX:+PrintCommandLineFlags",
    )
    assert code == 0, answer
    (row,) = MetricsStore(history).flows()
    assert (row.flow, row.last_run.run_id, row.last_run.records) == (str(flow.name), answer["run_id"], 500)
    assert (answer["state"], answer["records"], answer["lag"], answer["passes"]) == ("done", 500, 0, 1)
    assert [one["partition"] for one in answer["partitions"]] == [0, 1]
    assert [(one["task"], one["error"]) for one in answer["after"]] == [
        ("sync_checkpoints", None),
        ("emit_heartbeat", None),
    ]
    assert any(action["error"] is None for action in answer["topics"])
    copy = f"{flow.name.source}.{name}"
    assert read(target_kafka, copy, 1) == read(source_kafka, name, 1)

    # A person reads one line, and a table of what moved. Who looks on this machine finds the run, nothing being set.
    data = configuration.parent / "data-home"
    again = ("run", "--config", str(configuration), "--start", "earliest", "--run-id", "again")
    shown = srm_control(*again, XDG_DATA_HOME=str(data))
    assert shown.returncode == 0, shown.stderr
    (row,) = MetricsStore(f"sqlite:///{data}/srm/srm-metrics.db").flows()
    assert row.last_run.run_id == "again"
    looked = srm_control("top", "--once", "-o", "json", "--config", str(configuration), XDG_DATA_HOME=str(data))
    assert [(one["flow"], one["lag"], one["asked"]) for one in json.loads(looked.stdout)["flows"]] == [
        (str(flow.name), 0, "history")
    ]
    assert "500 records" in shown.stdout.splitlines()[-1]
    assert name in shown.stdout
    assert len(read(target_kafka, copy, 1)) == 1000
    # The same run once more does not go back again.
    nowhere = configuration.parent / "nowhere"
    code, answer = run(
        configuration, "--start", "earliest", "--run-id", "again", "--no-report", XDG_DATA_HOME=str(nowhere)
    )
    assert (code, answer["records"], nowhere.exists()) == (0, 0, False)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--flow", "nobody->target"], 2, "'nobody' is not one of the clusters"),
        (["--start", "tomorrow"], 2, "'tomorrow' is not a start position"),
    ],
)
def test_wrong_words(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
    arguments: list[str],
    code: int,
    sentence: str,
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    done = srm_control("run", "--config", str(configuration_file(properties_of(flow))), *arguments)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_cluster(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, configuration_file: Callable[..., Path]
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    port = ReservedPort()
    try:
        silent = properties_of(flow) | {
            f"{flow.name.source}.bootstrap.servers": port.address,
            f"{flow.name}.admin.timeout.ms": 3000,
        }
        done = srm_control("run", "--config", str(configuration_file(silent)))
    finally:
        port.release()
    assert done.returncode == 3, done.stderr
    assert flow.name.source in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_statement_from_the_file(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, configuration_file: Callable[..., Path]
) -> None:
    source_kafka.create_topic(name, 1)
    flow = flow_between(source_kafka, target_kafka, name)
    key = f"{flow.name}.transforms.sql"
    configuration = configuration_file(
        properties_of(flow) | {key: "SELECT upper(CAST(key AS STRING)) AS key FROM records"}
    )
    write(source_kafka, name, [b"v%d" % number for number in range(500)])
    code, answer = run(configuration, "--flow", str(flow.name))
    assert (code, answer["state"], answer["records"]) == (0, "done", 500), answer
    upper = [replace(seen, key=seen.key and seen.key.upper()) for seen in read(source_kafka, name)]
    assert read(target_kafka, f"{flow.name.source}.{name}") == upper
    # One that is wrong only in Spark's eyes.
    write(source_kafka, name, [b"never"])
    configuration.write_text(configuration.read_text().replace("upper(", "uper("))
    done = srm_control("run", "--config", str(configuration), "--flow", str(flow.name))
    assert done.returncode == 2
    assert "transforms.sql cannot be carried out: [UNRESOLVED_ROUTINE] Cannot resolve routine `uper`" in done.stderr
    assert "org.apache.spark" not in done.stderr
    assert len(read(target_kafka, f"{flow.name.source}.{name}")) == 500
