from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from srm_common.cli.main import run
from srm_common.domain.runs.run_options import RunOptions
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import FakeCluster
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, properties_of, write


def test_a_foreign_record_may_have_any_timestamp(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    source_kafka.create_topic(name)
    write(source_kafka, name, [b"x"] * 10)
    prepare(flow)
    replicate(flow, RunOptions("r"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    file = tmp_path / "srm.properties"
    file.write_text("\n".join(f"{key} = {value}" for key, value in properties_of(flow).items()))
    nanoseconds = 1_769_860_800_000_000_000
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers})
    producer.produce(f"{flow.name.source}.{name}", b"not ours", partition=0, timestamp=nanoseconds)
    assert producer.flush(60) == 0
    assert run(["check-copies", "--config", str(file), "--flow", str(flow.name)]) == 1
    assert f"{nanoseconds} ms" in capsys.readouterr().out
