"""Offsets exported, explained and applied while the source does not respond; Kafka's own tool takes the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from srm_common.cli.main import run
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.consumer_groups_tool import reset_offsets
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.kafka.group_commits import commit
from tests.kafka.markers import wait_for_markers

pytestmark = pytest.mark.kafka


def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


@dataclass
class Scenario:
    """A flow that has copied two of three partitions, with the groups ``one`` and ``other``.

    The commands are those of a person who looks at it while the source is down.
    """

    flow: FlowSettings
    topic: str
    config: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def remote(self) -> str:
        return f"{self.flow.name.source}.{self.topic}"

    @property
    def one(self) -> str:
        return f"{self.topic}-g"

    @property
    def other(self) -> str:
        return f"{self.topic}-h"

    def offsets(self, *words: str, code: int = 0, config: Path | None = None) -> tuple[str, str]:
        """``srm-control offsets`` with SRM's options: (standard output, standard error)."""
        self.capsys.readouterr()
        apply = words[:1] if words[:1] == ("apply",) else ()
        place = ["--config", str(config or self.config)]
        place += ["--source", self.flow.name.source, "--target", self.flow.name.target]
        found = run(["offsets", *apply, *place, *words[len(apply) :]])
        captured = self.capsys.readouterr()
        assert found == code, captured.out + captured.err
        return captured.out, captured.err

    def json(self, *words: str, code: int = 0, config: Path | None = None) -> Any:
        return json.loads(self.offsets(*words, "--output", "json", code=code, config=config)[0])

    def committed(self, kafka: LocalKafka, *groups: str) -> dict[tuple[str, int], int]:
        """What one group has committed."""
        found, faults = GroupReader(self.flow.target).offsets(groups)
        assert not faults
        return {place: at.offset for one in found for place, at in one.offsets.items()}


@pytest.fixture
def scenario(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> Scenario:
    for variable in ("SRM_AIRFLOW_URL", "AIRFLOW_HOME"):
        monkeypatch.delenv(variable, raising=False)
    flow = flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",))
    # Nothing is ever written to the third.
    source_kafka.create_topic(name, partitions=3)
    write(source_kafka, name, [b"%d" % number for number in range(40)])
    write(source_kafka, name, [b"%d" % number for number in range(20)], partition=1)
    prepare(flow)
    record = replicate(flow, RunOptions("r"), here)
    assert record.state is RunState.DONE
    wait_for_markers(flow, record)
    commit(
        source_kafka, f"{name}-g", TopicPartition(name, 0, 30), TopicPartition(name, 1, 20), TopicPartition(name, 2, 0)
    )
    commit(source_kafka, f"{name}-h", TopicPartition(name, 0, 7))
    sync_checkpoints(flow)
    away = properties_of(flow) | {f"{flow.name.source}.bootstrap.servers": "127.0.0.1:1"}
    return Scenario(flow, name, configuration_file(away), capsys)


@contextmanager
def reading(kafka: LocalKafka, group: str, topic: str) -> Iterator[None]:
    """A member of ``group`` that has partitions."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        for _ in range(900):
            consumer.poll(0.2)
            if consumer.assignment():
                break
        assert consumer.assignment()
        yield
    finally:
        consumer.close()


def test_kafkas_own_tool_takes_what_is_exported(scenario: Scenario, target_kafka: LocalKafka, tmp_path: Path) -> None:
    one, other, remote = scenario.one, scenario.other, scenario.remote
    printed, said = scenario.offsets("--group", one, "--export")
    assert printed == f"{remote},0,30\n{remote},1,20\n"
    assert f"group {one}: checkpoints written" in said
    several, _ = scenario.offsets("--group", one, "--group", other, "--export")
    assert several.splitlines() == [f"{one},{remote},0,30", f"{one},{remote},1,20", f"{other},{remote},0,7"]
    assert len(scenario.json("--all-groups", "--export")["offsets"]) == 3
    assert f"group {scenario.topic}-x has no checkpoint" in scenario.offsets(
        "--group", f"{scenario.topic}-x", "--export", code=1
    )[1]  # fmt: skip
    assert "say which group" in scenario.offsets("--export", code=2)[1]

    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    scenario.offsets("--group", one, "--export", "--to", str(short))
    scenario.offsets("--group", f"{one},{other}", "--export", "--to", str(long))
    assert (short.read_text(), long.read_text()) == (printed, several)
    assert reset_offsets(target_kafka, str(short), "--group", one) == {(one, remote, 0, 30), (one, remote, 1, 20)}
    assert scenario.committed(target_kafka, one) == {(remote, 0): 30, (remote, 1): 20}
    assert reset_offsets(target_kafka, str(long), "--group", one, "--group", other) == {
        (one, remote, 0, 30),
        (one, remote, 1, 20),
        (other, remote, 0, 7),
    }
    assert scenario.committed(target_kafka, other) == {(remote, 0): 7}


def test_the_table_has_the_reasons(
    scenario: Scenario, source_kafka: LocalKafka, configuration_file: Callable[..., Path]
) -> None:
    flow, topic, one = scenario.flow, scenario.topic, scenario.one
    down = scenario.json("--group", one)
    assert [(row["partition"], row["offset"], row["remark"]) for row in down["offsets"]] == [
        (0, 30, ""),
        (1, 20, ""),
        (2, None, "nothing of this partition was copied yet"),
    ]
    assert f"reasons are those of the flow's last round, because cluster '{flow.name.source}'" in down["notes"][0]
    source_kafka.create_topic(f"{topic}-more", partitions=1)
    commit(source_kafka, one, TopicPartition(topic, 0, 35), TopicPartition(f"{topic}-more", 0, 0))
    commit(source_kafka, f"{topic}-new", TopicPartition(topic, 0, 12))
    config = configuration_file(properties_of(flow), "up.properties")
    rows = scenario.json("--group", one, config=config)["offsets"]
    remarks = {(row["topic"], row["partition"]): (row["offset"], row["remark"]) for row in rows}
    assert remarks.pop((f"{topic}-more", 0))[1].startswith("the topic is not copied: ")
    assert remarks == {
        (scenario.remote, 0): (30, "the group has since read on to 35 at the source"),
        (scenario.remote, 1): (20, ""),
        (scenario.remote, 2): (None, "nothing of this partition was copied yet"),
    }
    (row,) = scenario.json("--group", f"{topic}-new", code=1, config=config)["offsets"]
    assert row["remark"] == "no checkpoint yet; the next round of the flow writes offset 12"
    (row,) = scenario.json("--group", f"{topic}-none", code=1, config=config)["offsets"]
    assert row["remark"] == f"'{flow.name.source}' has no such group"
    text, _ = scenario.offsets("--all-groups", config=config)
    assert "no checkpoint yet" in text


def test_offsets_are_applied_and_compared(scenario: Scenario, target_kafka: LocalKafka, tmp_path: Path) -> None:
    one, other, remote = scenario.one, scenario.other, scenario.remote
    dry = scenario.json("apply", "--all-groups", "--dry-run")
    assert [row["effect"] for row in dry["offsets"]] == ["is set"] * 3
    assert not dry["written"]
    assert scenario.committed(target_kafka, one, other) == {}
    text, _ = scenario.offsets("apply", "--group", one)
    assert f"{scenario.flow.name}: on cluster 'target' 2 of 2 offsets were set, and read back as they should be" in text
    assert scenario.committed(target_kafka, one) == {(remote, 0): 30, (remote, 1): 20}
    again = scenario.json("apply", "--all-groups")
    assert [row["effect"] for row in again["offsets"]] == ["as it is", "as it is", "set"]
    # A group that went on here is not moved back unasked.
    commit(target_kafka, one, TopicPartition(remote, 0, 33))
    assert "--rewind moves it back" in scenario.offsets("apply", "--group", one)[0]
    assert scenario.committed(target_kafka, one)[remote, 0] == 33
    file = tmp_path / "offsets.csv"
    file.write_text(f"{remote},0,31\n")
    back = scenario.json("apply", "--group", one, "--from-file", str(file), "--rewind")
    assert [(row["before"], row["offset"], row["after"]) for row in back["offsets"]] == [(33, 31, 31)]


def test_what_cannot_be_applied_is_said_and_nothing_is(
    scenario: Scenario, target_kafka: LocalKafka, tmp_path: Path
) -> None:
    one, other, remote = scenario.one, scenario.other, scenario.remote
    file = tmp_path / "offsets.csv"

    def refused(text: str, code: int) -> str:
        file.write_text(text)
        out, err = scenario.offsets("apply", "--from-file", str(file), code=code)
        return out + err

    good = f"{one},{remote},1,20\n"
    assert f"there is no partition {remote}.x-0" in refused(good + f"{one},{remote}.x,0,1\n", 1)
    assert f"there is no partition {remote}-3" in refused(good + f"{one},{remote},3,1\n", 1)
    assert "offset 99 is not in the log, which has the offsets 0 to 4" in refused(good + f"{one},{remote},0,99\n", 1)
    assert "offsets.csv:2: the offset -1 is negative" in refused(good + f"{one},{remote},0,-1\n", 2)
    assert f"group {one}-x has no checkpoint of flow" in scenario.offsets("apply", "--group", f"{one}-x", code=2)[1]
    assert "say which group" in scenario.offsets("apply", code=2)[1]
    with reading(target_kafka, other, remote):
        text, _ = scenario.offsets("apply", "--all-groups", code=1)
        assert f"group {other} is in use (stable): stop its consumers, then run again" in text
        assert "nothing was set: 1 of 3 offsets cannot be" in text
    assert scenario.committed(target_kafka, one) == {}
