"""``srm-control failover`` and ``failback`` as operators give them; the story with live clients is in tests/faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.cli.main import run
from srm_common.domain.amount import Amount
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepName
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.testing import FakeCluster, ReservedPort
from srm_common.usecases.moving import left_cluster
from srm_common.usecases.moving.failover import Move
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.faults.live_groups import run_once
from tests.kafka.flows import flow_between, properties_of, write
from tests.kafka.group_commits import commit


def test_there_and_back(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = flow_between(source_kafka, target_kafka, name, topics=(name,))
    group, copy = f"{name}-g", f"{flow.name.source}.{name}"
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file(properties_of(flow))))

    def command(*arguments: str) -> tuple[int, Any]:
        code = run([arguments[0], "--output", "json", "--no-last-pass", "--wait", "0", *arguments[1:]])
        out = capsys.readouterr().out
        return code, MoveReport.from_json(json.loads(out)) if out else None

    source_kafka.create_topic(name, 1)
    write(source_kafka, name, [b"%d" % number for number in range(100)])
    run_once(flow)
    commit(source_kafka, group, TopicPartition(name, 0, 60, metadata="note"))

    code, report = command("failover", "--dry-run")
    assert code == 0
    assert [(position.topic, position.before, position.applied) for position in report.positions] == [(copy, None, 60)]
    assert not GroupReader(flow.target).offsets([group])[0][0].offsets

    assert command("failover", "--group", f"{group},nobody")[0] == 2
    code, report = command("failover", "--group", group)
    assert (code, report.finished, report.read_again.most) == (0, True, 0)
    (offsets,) = GroupReader(flow.target).offsets([group])[0]
    assert {place: (at.offset, at.metadata) for place, at in offsets.offsets.items()} == {(copy, 0): (60, "note")}

    # A step that is repeated late moves nobody back.
    commit(target_kafka, group, TopicPartition(copy, 0, 70))
    assert report is not None
    again = Move(flow, report.request).run(StepName.APPLY)
    assert again.sentences == (f"0 offsets of 0 groups committed on '{flow.target.alias}'", "1 offset needed no change")

    # The configuration has no flow back: what was read of copies goes back all the same.
    commit(target_kafka, group, TopicPartition(copy, 0, 75))
    code, report = command("failback")
    assert (code, report.flow, report.read_again.most) == (0, f"{flow.name.target}->{flow.name.source}", 0)
    (offsets,) = GroupReader(flow.source).offsets([group])[0]
    assert {place: at.offset for place, at in offsets.offsets.items()} == {(name, 0): 75}

    # What is not copied is not left behind by accident.
    write(source_kafka, name, [b"more"] * 5)
    code, report = command("failover")
    assert (code, report.finished) == (1, False)
    assert f"5 offsets of {name}-0 are not copied yet; stop the producers" in report.steps[-1].sentences[0]

    assert run(["failover", "--no-last-pass", "--mode", "continuous", "--wait", "0"]) == 0
    printed = capsys.readouterr().out
    assert "1 group moved" in printed
    assert "READ AGAIN" in printed
    assert run(["failback", "--mode", "disaster"]) == 2


def test_what_lies_beyond_the_copy_is_in_the_bound(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is gone and its checkpoint stands 5 offsets ahead of the copy: a bound of 0 would be wrong."""
    flow = flow_between(source_kafka, target_kafka, name, topics=(name,))
    source_kafka.create_topic(name, 1)
    write(source_kafka, name, [b"copied"] * 10)
    run_once(flow)
    write(source_kafka, name, [b"not copied"] * 10)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 15))
    sync_checkpoints(flow, at_once=True)
    monkeypatch.setattr(left_cluster, "_PATIENCE_ON_A_BAD_DAY", 0.5)
    port = ReservedPort()
    try:
        away = ClusterSettings.plaintext(flow.name.source, port.address)
        dead = replace(flow, source=away, admin_timeout_ms=2000)
        move = Move(dead, MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, dry_run=True))
        assert [move.run(step).state for step in move.report.request.steps] == ["done", "done"]
    finally:
        port.release()
    (position,) = move.report.positions
    assert "5 offsets ahead of what is copied" in position.reason
    # The offset of the copy's commit marker counts, too.
    assert position.read_again == move.report.read_again == Amount.at_most(6)
    assert "records read again: at most 6" in move.report.steps[-1].sentences[0]


@pytest.mark.parametrize("gone", ["source", "target"])
def test_a_cluster_that_is_gone_is_said(
    source_kafka: FakeCluster,
    name: str,
    gone: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    impatient: None,
) -> None:
    flow = flow_between(source_kafka, source_kafka, name)
    dead = flow.name.source if gone == "source" else flow.name.target
    port = ReservedPort()
    try:
        settings = {f"{dead}.bootstrap.servers": port.address, "admin.timeout.ms": 1500}
        file = configuration_file(properties_of(flow) | settings)
        assert run(["failover", "--config", str(file), "--dry-run", "--flow", str(flow.name)]) == 3
    finally:
        port.release()
    told = capsys.readouterr()
    assert f"'{dead}'" in told.out + told.err
