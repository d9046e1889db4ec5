"""Offsets exported, explained and applied while the source does not respond."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from srm_common.testing import FakeCluster
from tests.kafka.exported_offsets import Scenario, copied_flow
from tests.kafka.flows import properties_of
from tests.kafka.group_commits import commit


@pytest.fixture
def scenario(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> Scenario:
    for variable in ("SRM_AIRFLOW_URL", "AIRFLOW_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return copied_flow(source_kafka, target_kafka, name, configuration_file, capsys)


@contextmanager
def reading(kafka: FakeCluster, group: str, topic: str) -> Iterator[None]:
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


@pytest.mark.usefixtures("impatient")
def test_the_table_has_the_reasons_of_the_last_round(scenario: Scenario) -> None:
    down = scenario.json("--group", scenario.one)
    assert [(row["partition"], row["offset"], row["remark"]) for row in down["offsets"]] == [
        (0, 30, ""),
        (1, 20, ""),
        (2, None, "nothing of this partition was copied yet"),
    ]
    cluster = f"cluster '{scenario.flow.name.source}'"
    assert f"reasons are those of the flow's last round, because {cluster}" in down["notes"][0]


def test_the_table_has_the_reasons_of_now_where_the_source_answers(
    scenario: Scenario, source_kafka: FakeCluster, configuration_file: Callable[..., Path]
) -> None:
    """However slowly."""
    flow, topic, one = scenario.flow, scenario.topic, scenario.one
    source_kafka.delay(0.6, "ListGroups", times=2)
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


@pytest.mark.usefixtures("impatient")
def test_offsets_are_applied_and_compared(scenario: Scenario, target_kafka: FakeCluster, tmp_path: Path) -> None:
    one, other, remote = scenario.one, scenario.other, scenario.remote
    dry = scenario.json("apply", "--all-groups", "--dry-run")
    assert [row["effect"] for row in dry["offsets"]] == ["is set"] * 3
    assert not dry["written"]
    assert scenario.committed(target_kafka, one, other) == {}
    text, _ = scenario.offsets("apply", "--group", one)
    assert f"{scenario.flow.name}: on cluster 'target' 2 of 2 offsets were set, and read back correctly" in text
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
    # A byte order mark, which Excel writes, is no part of the first group's name.
    file.write_text(f"{one},{remote},0,30\n", encoding="utf-8-sig")
    marked = scenario.json("apply", "--from-file", str(file), "--rewind")
    assert [(row["group"], row["before"], row["after"]) for row in marked["offsets"]] == [(one, 31, 30)]


@pytest.mark.usefixtures("impatient")
def test_what_cannot_be_applied_is_said_and_nothing_is(
    scenario: Scenario, target_kafka: FakeCluster, tmp_path: Path
) -> None:
    one, other, remote = scenario.one, scenario.other, scenario.remote
    file = tmp_path / "offsets.csv"

    def refused(text: str, code: int) -> str:
        file.write_text(text)
        out, err = scenario.offsets("apply", "--from-file", str(file), code=code)
        return out + err

    good = f"{one},{remote},1,20\n"
    assert f"no such partition: {remote}.x-0" in refused(good + f"{one},{remote}.x,0,1\n", 1)
    assert f"no such partition: {remote}-3" in refused(good + f"{one},{remote},3,1\n", 1)
    assert "offset 99 is not in the log, which has the offsets 0 to 4" in refused(good + f"{one},{remote},0,99\n", 1)
    assert "offsets.csv:2: the offset -1 is negative" in refused(good + f"{one},{remote},0,-1\n", 2)
    assert f"group {one}-x has no checkpoint of flow" in scenario.offsets("apply", "--group", f"{one}-x", code=2)[1]
    assert "say which group" in scenario.offsets("apply", code=2)[1]
    with reading(target_kafka, other, remote):
        text, _ = scenario.offsets("apply", "--all-groups", code=1)
        assert f"group {other} is in use (stable): stop its consumers, then run again" in text
        assert "nothing was set: 1 of 3 offsets cannot be" in text
    assert scenario.committed(target_kafka, one) == {}
