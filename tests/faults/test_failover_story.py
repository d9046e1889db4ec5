"""Groups move to a backup and back, with producers and consumers at work, through the death of the primary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow_graph import GraphFlow
from srm_common.domain.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepName
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from srm_common.domain.start_rules import parse_topic_starts
from srm_common.testing import LocalKafka
from srm_common.usecases.failback import failback
from srm_common.usecases.failover import last_move, run_failover_step
from srm_common.usecases.move_positions import opposite
from tests.faults.live_groups import Ledger, LiveConsumer, LiveFlow, LiveProducer, copy_once, run_once, wait_for
from tests.kafka.flows import flow_between

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.timeout(600)]

PARTITIONS = 3
SOME = 1000


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
        made = flow_between(primary, backup, name, topics=(name,), groups=(self.group,), retry_timeout_seconds=5.0)
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

    def move(self, kind: MoveKind, mode: MoveMode) -> MoveReport:
        """All steps; each in a process of its own, as far as it can tell."""
        request = MoveRequest(kind, mode, (self.group,), wait_seconds=120.0)
        copy = None if mode is MoveMode.CONTINUOUS else copy_once
        for step in request.steps:
            if kind is MoveKind.FAILBACK:
                result = failback(self.flow, self.back, request, copy).run(step)
            else:
                result = run_failover_step(self.flow, request, step, copy)
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
    return replace(flow, graph=(GraphFlow(flow.name, flow.policy, flow.source, flow.target),))


@pytest.mark.parametrize("identity", [False, True], ids=["default", "identity"])
def test_the_primary_dies_and_comes_back(
    primary: LocalKafka, target_kafka: LocalKafka, name: str, identity: bool
) -> None:
    pair = Pair(primary, target_kafka, name, identity)
    ledger, backup = pair.ledger, target_kafka

    # Everything is at work when the primary is killed.
    with pair.producer(primary), pair.consumer(primary) as consumer, LiveFlow(pair.flow) as flow:
        wait_for("traffic", lambda: consumer.count > SOME and flow.rounds > 2)
        primary.kill()
    loose = set(ledger.loose)

    report = pair.move(MoveKind.FAILOVER, MoveMode.DISASTER)
    assert {one.topic for one in report.positions} == {
        pair.flow.policy.format_remote_topic(pair.flow.name.source, name)
    }
    assert all(one.translated and one.age_ms > 0 for one in report.positions)
    assert report.steps[2].step is StepName.DRAIN
    assert "stays there" in report.steps[2].sentences[0]

    # Work goes on at the backup. What the primary took along is not there.
    before = ledger.again
    with pair.consumer(backup) as consumer:
        with pair.producer(backup) as producer:
            wait_for("traffic at the backup", lambda: producer.confirmed > SOME and consumer.count > SOME)
        wait_for("the backup to be read", lambda: not producer.keys - ledger.read.keys())
    assert ledger.again - before <= report.read_again

    # The primary returns, and the groups with it.
    primary.restart()
    back = pair.move(MoveKind.FAILBACK, MoveMode.CONTROLLED)
    before = ledger.again
    with pair.consumer(primary):
        with pair.producer(primary) as producer:
            wait_for("traffic at the primary", lambda: producer.confirmed > SOME)
        wait_for("every record to be read", pair.settled)
    assert not ledger.unread
    again = ledger.again - before
    print(f"read again: {ledger.again}; bounds: {report.read_again} and {back.read_again}; uncommitted: {len(loose)}")
    assert again <= back.read_again + len(loose)
    if not identity:
        assert back.read_again == 0
        # The first flow goes on, too: nothing was lost, and nothing comes back.
        assert run_once(pair.flow).state == "done"
