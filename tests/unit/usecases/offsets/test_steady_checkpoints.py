"""Checkpoints while a run copies: the same as those of the task after it, for what needs no look into a log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import StateKey
from srm_common.domain.monitoring.run_report import GroupSample, groups_from
from srm_common.kafka.state.flow_state import FlowState
from srm_common.testing import FakeCluster, ReservedPort
from srm_common.usecases.offsets.steady_checkpoints import CheckpointRounds, SteadyCheckpoints
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.kafka.checkpoint_rounds import checkpoints, copy, values
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.kafka.records import writer

RECORDS = 160


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    made = flow_between(source_kafka, target_kafka, name, tasks_max=1, groups=(f"{name}.*",))
    source_kafka.create_topic(name, 1)
    return made


@pytest.fixture
def rounds(flow: FlowSettings, source_kafka: FakeCluster, name: str) -> Iterator[CheckpointRounds]:
    write(source_kafka, name, values(0, 100))
    copy(flow)
    with closing(CheckpointRounds(flow)) as made:
        yield made


def places(flow: FlowSettings) -> list[tuple[str, int, int]]:
    return [(checkpoint.group, checkpoint.upstream, checkpoint.downstream) for checkpoint in checkpoints(flow)]


def samples(flow: FlowSettings) -> tuple[GroupSample, ...]:
    with FlowState(flow) as state:
        return groups_from(state.read(StateKey.GROUPS))


def test_groups_that_moved_get_the_checkpoints_that_the_task_would_write(
    flow: FlowSettings, rounds: CheckpointRounds, source_kafka: FakeCluster, name: str
) -> None:
    one, other, ahead = f"{name}-one", f"{name}-other", f"{name}-ahead"
    commit(source_kafka, one, TopicPartition(name, 0, 10, metadata="note"))
    commit(source_kafka, other, TopicPartition(name, 0, 100))
    commit(source_kafka, "not-of-this-flow", TopicPartition(name, 0, 7))
    write(source_kafka, name, values(100, 150))
    commit(source_kafka, ahead, TopicPartition(name, 0, 150))
    assert rounds.go() == ""
    assert sorted(places(flow)) == [(ahead, 150, 100), (one, 10, 10), (other, 100, 100)]
    assert {made.metadata for made in checkpoints(flow) if made.group == one} == {"note"}

    # Nobody moved, nothing is written; what was ahead of the copy follows it.
    assert rounds.go() == ""
    assert len(places(flow)) == 3
    copy(flow)
    assert rounds.go() == ""
    # Behind the commit marker of the first chunk.
    assert places(flow)[3:] == [(ahead, 150, 151)]

    # On, and back: only a group that was moved back has a lower checkpoint.
    commit(source_kafka, one, TopicPartition(name, 0, 120))
    commit(source_kafka, other, TopicPartition(name, 0, 50))
    assert rounds.go() == ""
    assert sorted(places(flow)[4:]) == [(one, 120, 121), (other, 50, 50)]
    assert sync_checkpoints(flow).checkpoints == 0


def test_what_the_map_does_not_tell_exactly_waits_for_the_task(
    flow: FlowSettings, source_kafka: FakeCluster, name: str
) -> None:
    """Transactions of one record each: a marker behind every record, too many holes for the map of a small chunk."""
    producer = writer(source_kafka, transactional_id=name)
    producer.init_transactions()
    for number in range(RECORDS):
        producer.begin_transaction()
        producer.produce(name, value=b"%d" % number, partition=0)
        producer.commit_transaction()
    copy(flow)
    group = f"{name}-g"
    commit(source_kafka, group, TopicPartition(name, 0, RECORDS))
    with closing(CheckpointRounds(flow)) as rounds:
        assert rounds.go() == ""
    assert places(flow) == []
    assert sync_checkpoints(flow).untranslated == ()
    assert places(flow) == [(group, RECORDS, RECORDS // 2)]


@pytest.mark.usefixtures("impatient")
def test_a_source_that_is_away_is_said_once_and_stops_nothing(flow: FlowSettings) -> None:
    notes: list[str] = []
    told = threading.Event()

    def note(sentence: str) -> None:
        notes.append(sentence)
        told.set()

    port = ReservedPort()
    try:
        away = replace(
            flow,
            source=ClusterSettings.plaintext(flow.name.source, port.address),
            emit_checkpoints_in_runs_interval_seconds=0.05,
            admin_timeout_ms=2000,
        )
        with SteadyCheckpoints(away, note):
            assert told.wait(300)
    finally:
        port.release()
    assert len(notes) == 1
    assert "checkpoints were not written while the run copied" in notes[0]
    assert flow.name.source in notes[0]


def test_a_short_run_ends_with_checkpoints_of_what_it_copied(
    flow: FlowSettings, source_kafka: FakeCluster, name: str
) -> None:
    """Long before the first interval is over: the task that follows may find a source that has died."""
    flow = replace(flow, emit_checkpoints_in_runs_interval_seconds=3600.0)
    group = f"{name}-g"
    write(source_kafka, name, values(0, 100))
    commit(source_kafka, group, TopicPartition(name, 0, 150))
    copy(flow)
    assert places(flow) == [(group, 150, 100)]
    write(source_kafka, name, values(100, 150))
    copy(flow)
    # Behind the commit marker of the first run.
    assert places(flow)[1:] == [(group, 150, 151)]
    (written,) = samples(flow)
    assert (written.group, written.positions) == (group, 1)
    assert written.checkpoint_ms
    assert written.checkpoint_latency_ms
    # The task finds nothing to write, and how long it took is still known.
    assert sync_checkpoints(flow).checkpoints == 0
    assert samples(flow) == (written,)
    # Nothing new, nothing asked.
    commit(source_kafka, group, TopicPartition(name, 0, 40))
    copy(flow)
    assert len(places(flow)) == 2
