"""Exported offsets, while the source does not answer, in the two layouts of kafka-consumer-groups.sh --from-file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from srm_common.cli.main import run
from srm_common.domain.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.run_options import RunOptions
from srm_common.domain.run_record import RunState
from srm_common.replication.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.replicate import replicate
from srm_common.usecases.sync_checkpoints import sync_checkpoints
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.kafka.groups import commit

pytestmark = pytest.mark.kafka


def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


def test_offsets_are_exported_while_the_source_is_down(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    for variable in ("SRM_AIRFLOW_URL", "AIRFLOW_HOME"):
        monkeypatch.delenv(variable, raising=False)
    flow = flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",))
    source_kafka.create_topic(name, partitions=2)
    write(source_kafka, name, [b"%d" % number for number in range(40)])
    write(source_kafka, name, [b"%d" % number for number in range(20)], partition=1)
    prepare(flow)
    assert replicate(flow, RunOptions("r"), here).state is RunState.DONE
    one, other = f"{name}-g", f"{name}-h"
    commit(source_kafka, one, TopicPartition(name, 0, 30), TopicPartition(name, 1, 20))
    commit(source_kafka, other, TopicPartition(name, 0, 7))
    sync_checkpoints(flow)

    properties = properties_of(flow) | {f"{flow.name.source}.bootstrap.servers": "127.0.0.1:1"}
    config = ["--config", str(configuration_file(properties))]
    remote = f"{flow.name.source}.{name}"

    def offsets(*words: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        place = ["--source", flow.name.source, "--target", flow.name.target]
        assert run(["offsets", *config, *place, *words]) == code
        captured = capsys.readouterr()
        return captured.out, captured.err

    printed, said = offsets("--group", one, "--export")
    assert printed == f"{remote},0,30\n{remote},1,20\n"
    assert f"group {one}: checkpoints written" in said
    several, _ = offsets("--group", one, "--group", other, "--export")
    assert several.splitlines() == [f"{one},{remote},0,30", f"{one},{remote},1,20", f"{other},{remote},0,7"]
    assert len(json.loads(offsets("--all-groups", "--output", "json")[0])["offsets"]) == 3
    assert f"group {name}-x has no checkpoint" in offsets("--group", f"{name}-x", "--export", code=1)[1]
    offsets("--export", code=2)

    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    offsets("--group", one, "--export", "--to", str(short))
    offsets("--group", f"{one},{other}", "--export", "--to", str(long))
    assert short.read_text() == printed
    assert long.read_text() == several
