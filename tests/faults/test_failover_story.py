"""Groups move to a backup and back, with producers and consumers at work, through the death of the primary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.amount import Amount
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.flow.names import checkpoints_topic
from srm_common.domain.flow.start_position import parse_topic_starts
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepName, StepResult
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.domain.verification.verification import Verdict
from srm_common.errors import ConfigError
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import LocalKafka
from srm_common.usecases.moving.failover import Move, failback, last_move
from srm_common.usecases.offsets.resume_points import opposite
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.faults.live_groups import (
    PATIENCE,
    Ledger,
    LiveConsumer,
    LiveFlow,
    LiveProducer,
    LongRun,
    copy_once,
    run_once,
    wait_for,
)
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

PARTITIONS = 3
SOME = 1000
CHECK = StepName.CHECK
#: Runs that are at work when the primary dies should not try for long; all others wait as long as a machine needs.
IMPATIENT: dict[str, Any] = {"retry_timeout_seconds": 5.0, "request_timeout_ms": 5000, "admin_timeout_ms": 10_000}
PATIENT: dict[str, Any] = {"retry_timeout_seconds": 120.0, "request_timeout_ms": 60_000, "admin_timeout_ms": 120_000}


@pytest.fixture(scope="module")
def primary() -> Iterator[LocalKafka]:
    """A cluster that may be killed."""
    with LocalKafka(name="primary") as kafka:
        yield kafka


class Pair:
    """Both directions between the primary and the backup, for one topic and one group."""

    def __init__(self, primary: LocalKafka, backup: LocalKafka, name: str, identity: bool) -> None:
        self.primary, self.backup = primary, backup
        self.topic, self.group = name, f"{name}-g"
        self.ledger = Ledger()
        self.moves: list[MoveReport] = []
        made = flow_between(primary, backup, name, topics=(name,), groups=(self.group,), **IMPATIENT)
        here, there = made.name.source, f"{made.name.source}backup"
        flow = replace(made, name=FlowName(here, there), target=replace(made.target, alias=there))
        there_and_back = opposite(flow)
        if identity:
            # One direction is enabled at a time, and begins behind what the other copied.
            there_and_back = replace(there_and_back, start_positions=parse_topic_starts(".*=opposite"))
        self.flow = replace(flow, policy=_policy(identity, here))
        self.back = replace(there_and_back, policy=_policy(identity, there))
        if identity:
            self.flow, self.back = _alone(self.flow), _alone(self.back)
        primary.create_topic(name, PARTITIONS)
        if not identity:
            backup.create_topic(name, PARTITIONS)
        self.topics_at_primary = {name, self.back.policy.format_remote_topic(there, name)}
        self.topics_at_backup = {name, self.flow.policy.format_remote_topic(here, name)}

    def producer(self, kafka: LocalKafka) -> LiveProducer:
        return LiveProducer(kafka, self.topic, PARTITIONS, self.ledger)

    def consumer(self, kafka: LocalKafka) -> LiveConsumer:
        topics = self.topics_at_primary if kafka is self.primary else self.topics_at_backup
        return LiveConsumer(kafka, topics, self.group, self.ledger)

    def be_patient(self) -> None:
        """No cluster dies from now on."""
        self.flow, self.back = replace(self.flow, **PATIENT), replace(self.back, **PATIENT)

    def step(self, request: MoveRequest, step: StepName) -> StepResult:
        """One step in a process of its own, as far as it can tell."""
        copy = None if request.mode is MoveMode.CONTINUOUS else copy_once
        if request.kind is MoveKind.FAILBACK:
            return failback(self.flow, self.back, request, copy).run(step)
        return Move(self.flow, request, copy).run(step)

    def move(self, kind: MoveKind, mode: MoveMode) -> MoveReport:
        """All steps."""
        request = MoveRequest(kind, mode, (self.group,), wait_seconds=PATIENCE)
        for step in request.steps:
            result = self.step(request, step)
            print(f"{(result.ended_ms - result.started_ms) / 1000:.1f} s: {result.render()}")
            assert not result.failed, result.render()
        report = last_move(self.back if kind is MoveKind.FAILBACK else self.flow)
        assert report is not None
        assert report.finished, report.render()
        assert report.exit_code == 0, report.render()
        self.moves.append(report)
        return report

    def settled(self) -> bool:
        return not self.ledger.unread


def _policy(identity: bool, source: str) -> DefaultReplicationPolicy:
    return IdentityReplicationPolicy(source_alias=source) if identity else DefaultReplicationPolicy()


def _alone(flow: FlowSettings) -> FlowSettings:
    return replace(flow, graph=(GraphFlow.of(flow.name, flow.policy, flow.source, flow.target),))


@pytest.mark.parametrize("identity", [False, True], ids=["default", "identity"])
def test_the_primary_dies_and_comes_back(
    primary: LocalKafka, target_kafka: LocalKafka, name: str, identity: bool
) -> None:
    pair = Pair(primary, target_kafka, name, identity)
    ledger, backup = pair.ledger, target_kafka

    # Everything is at work when the primary is killed.
    with pair.producer(primary) as producer, pair.consumer(primary) as consumer, LiveFlow(pair.flow) as flow:
        wait_for("traffic", lambda: consumer.count > SOME and flow.rounds > 2)
        primary.kill()
        for worker in (producer, consumer, flow):
            worker.stop()
    loose = set(ledger.loose)

    report = pair.move(MoveKind.FAILOVER, MoveMode.DISASTER)
    assert {position.topic for position in report.positions} == {
        pair.flow.policy.format_remote_topic(pair.flow.name.source, name)
    }
    assert all(position.translated and position.age_ms > 0 for position in report.positions)
    assert report.steps[2].step is StepName.DRAIN
    assert "stay there" in report.steps[2].sentences[0]

    # What was copied is proved without the primary.
    assert proved(pair.flow) == {Verdict.PROVED}

    # Work goes on at the backup. What the primary took along is not there.
    before = ledger.again
    with pair.consumer(backup) as consumer:
        with pair.producer(backup) as producer:
            wait_for("traffic at the backup", lambda: producer.confirmed > SOME and consumer.count > SOME)
        wait_for("the backup to be read", lambda: not producer.keys - ledger.read.keys())
    assert report.read_again.most is not None
    assert ledger.again - before <= report.read_again.most

    # The primary returns, and the groups with it.
    primary.restart()
    pair.be_patient()
    back = pair.move(MoveKind.FAILBACK, MoveMode.CONTROLLED)
    before = ledger.again
    with pair.consumer(primary):
        with pair.producer(primary) as producer:
            wait_for("traffic at the primary", lambda: producer.confirmed > SOME)
        wait_for("every record to be read", pair.settled)
    assert not ledger.unread
    again = ledger.again - before
    print(f"read again: {ledger.again}; bounds: {report.bound} and {back.bound}; uncommitted: {len(loose)}")
    assert back.read_again.most is not None
    assert again <= back.read_again.most + len(loose)
    if not identity:
        assert back.read_again.most == 0
        # The first flow goes on, too: nothing was lost, and nothing comes back.
        assert run_once(pair.flow).state == "done"
        assert proved(pair.flow) == {Verdict.PROVED}
        assert proved(pair.back) == {Verdict.PROVED}


def proved(flow: FlowSettings) -> set[Verdict]:
    """What a verification finds of the partitions that hold something, by the fingerprints alone."""
    verification = verify_copies(flow)
    assert verification.clean, verification.to_json()
    return set(verification.counts) - {Verdict.NOTHING}


def test_a_primary_that_dies_in_a_long_run_is_known_as_of_moments_before(
    primary: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """No task between: what is read twice is bounded by the last checkpoint within the run, not by the run's start."""
    pair = Pair(primary, target_kafka, name, identity=False)
    flow = replace(pair.flow, emit_checkpoints_in_runs_interval_seconds=0.2)
    copy_once(flow)
    with LongRun(flow), pair.producer(primary) as producer, pair.consumer(primary) as consumer:
        # Forward only: from here on at least so much of what was read is known.
        wait_for("checkpoints within the run", lambda: checkpointed(flow) > SOME)
        wait_for("traffic", lambda: consumer.count > 2 * SOME)
        primary.kill()
        producer.stop()
        consumer.stop()
        try:
            request = MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, (pair.group,), dry_run=True)
            move = Move(flow, request)
            assert [move.run(step).state for step in request.steps] == ["done", "done"]
        finally:
            primary.restart()
    assert sum(position.upstream for position in move.report.positions) > SOME
    logs = own_logs(target_kafka, [position.topic for position in move.report.positions])
    print(
        f"{move.report.bound} of {logs}; known {max(position.age_ms for position in move.report.positions)} ms before"
    )
    assert move.report.read_again.most is not None
    assert move.report.read_again.most < logs - SOME


def checkpointed(flow: FlowSettings) -> int:
    """How many offsets lie before the newest checkpoints, over all partitions."""
    with StateReader(flow.target) as reader:
        return sum(
            checkpoint.upstream for checkpoint in newest_checkpoints(reader, checkpoints_topic(flow)).by_place.values()
        )


def own_logs(kafka: LocalKafka, topics: Iterable[str]) -> int:
    """The sum of the ends of the topics' partitions."""
    admin = ClusterAdmin(ClusterSettings.plaintext("here", kafka.bootstrap_servers))
    ends = admin.offsets([Place(topic, number) for topic in set(topics) for number in range(PARTITIONS)], LATEST)
    return sum(end for end in ends.values() if isinstance(end, int))


def test_planned_moves_read_nothing_twice(primary: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    pair = Pair(primary, target_kafka, name, identity=False)
    ledger, backup = pair.ledger, target_kafka

    # Consumers move first, while producers and the flow go on.
    with LiveFlow(pair.flow), pair.producer(primary):
        with pair.consumer(primary) as consumer:
            wait_for("traffic", lambda: consumer.count > SOME)
            in_use = pair.step(
                MoveRequest(MoveKind.FAILOVER, MoveMode.CONTINUOUS, (pair.group,), wait_seconds=0), CHECK
            )
            assert (in_use.state, in_use.exit_code) == ("failed", 1)
            assert "stop its consumers there first" in in_use.sentences[0]
            # On a bad day nobody is asked to stop, and nobody knows what is read meanwhile.
            request = MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, (pair.group,), dry_run=True)
            hasty = Move(pair.flow, request)
            assert [hasty.run(step).state for step in request.steps] == ["done", "done"]
            assert [position.read_again.unknown for position in hasty.report.positions] == [1] * PARTITIONS
            assert f"unknown in all {PARTITIONS} positions" in hasty.report.steps[-1].sentences[0]
            assert "from now on is read again" in hasty.report.positions[0].reason
        assert pair.move(MoveKind.FAILOVER, MoveMode.CONTINUOUS).read_again.most == 0
        with pair.consumer(backup) as consumer:
            wait_for("traffic at the backup", lambda: consumer.count > SOME)

    # Producers follow, and the group goes back in the middle of what they write there.
    with LiveFlow(pair.flow), LiveFlow(pair.back), pair.producer(backup) as producer:
        with pair.consumer(backup) as consumer:
            wait_for("their records to be read", lambda: len(producer.keys & ledger.read.keys()) > SOME)
        assert pair.move(MoveKind.FAILBACK, MoveMode.CONTINUOUS).read_again.most == 0
        with pair.consumer(primary) as consumer:
            wait_for("traffic at the primary", lambda: consumer.count > SOME)

    # Everybody rests; what is left is copied, and the group moves once more. A crash at any step changes nothing.
    request = MoveRequest(MoveKind.FAILOVER, MoveMode.CONTROLLED, (pair.group,), wait_seconds=PATIENCE)
    for step in request.steps[: request.steps.index(StepName.VERIFY)]:
        assert not pair.step(request, step).failed
    report = pair.move(MoveKind.FAILOVER, MoveMode.CONTROLLED)
    assert report.read_again.most == 0
    assert all(position.before == position.applied for position in report.positions)
    with pair.consumer(backup):
        wait_for("every record to be read", pair.settled)
    assert not ledger.unread
    assert ledger.again == 0
    assert not ledger.loose


def test_what_cannot_be_moved_is_said(primary: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    pair = Pair(primary, target_kafka, name, identity=False)
    pair.be_patient()
    nobody = MoveRequest(MoveKind.FAILOVER, MoveMode.CONTROLLED, ("nobody",), wait_seconds=0)
    unknown = pair.step(nobody, CHECK)
    assert (unknown.state, unknown.exit_code) == ("failed", 2)
    assert unknown.sentences == (f"group nobody has no committed offsets on '{pair.flow.source.alias}'",)
    with pytest.raises(ConfigError, match="start with step check"):
        pair.step(replace(nobody, groups=("somebody",)), StepName.APPLY)
    with pytest.raises(ConfigError, match="has no step stop"):
        pair.step(replace(nobody, mode=MoveMode.CONTINUOUS), StepName.STOP)

    # Not copied, and copied only in part.
    primary.create_topic(f"{name}-other", 1)
    group = pair.group
    commit(primary, group, TopicPartition(f"{name}-other", 0, 5))
    write(primary, name, [b"x"] * 10)
    copy_once(pair.flow)
    write(primary, name, [b"x"] * 10)
    commit(primary, group, TopicPartition(name, 0, 15))
    dry = Move(pair.flow, MoveRequest(MoveKind.FAILOVER, MoveMode.CONTROLLED, dry_run=True, wait_seconds=0))
    assert [dry.run(step).state for step in dry.report.request.steps] == ["done", "done"]
    other, copied = sorted(dry.report.positions, key=lambda one: one.translated)
    assert (other.applied, other.reason) == (
        None,
        f"{name}-other is not copied between {pair.flow.source.alias} and {pair.flow.target.alias}",
    )
    assert (copied.before, copied.applied, copied.read_again) == (None, 10, Amount.at_most(5))
    waiting = replace(nobody, groups=(group,), mode=MoveMode.CONTINUOUS)
    assert not pair.step(waiting, CHECK).failed
    behind = pair.step(waiting, StepName.DRAIN)
    assert behind.failed
    assert f"{name}-0 is not copied up to 15 yet, where group {group} stands" in behind.sentences[0]
    offsets, _ = GroupReader(pair.flow.target).offsets([group])
    assert not offsets[0].offsets
