"""Runs of one and of many passes, and what becomes of a partition that has lost data or is gone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.runs.partition_track import Progress
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topic_partition import TopicPartition as TopicPair
from srm_common.errors import UnreachableCluster
from srm_common.replication.driver.passes import Passes
from srm_common.replication.driver.source_view import Listed, SourceView
from srm_common.testing import FakeCluster, ReservedPort
from srm_common.usecases.runs.replicate import replicate
from tests.contract.parts import Cluster
from tests.kafka.flows import flow_between, read, write
from tests.kafka.records import delete_topic
from tests.kafka.topic_pairs import Here, Pair, run, values

LONG = 3600.0


class Clock:
    """A run's clock, which a test sets forward: a long run ends when all has happened, however long that takes."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead

    def go_on(self, seconds: float) -> None:
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("srm_common.usecases.runs.replicate.Passes", partial(Passes, clock=clock))
    return clock


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


@pytest.fixture
def pair(flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> Pair:
    return Pair(flow, source_kafka, target_kafka, name, 3)


def test_a_long_run_follows_the_source_and_grows_with_it(
    pair: Pair, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srm_common.replication.driver.passes.PASS_SECONDS", 0.3)
    write(pair.source, pair.topic, values(0, 100))
    seen: list[Progress] = []

    def more(progress: Progress) -> None:
        seen.append(progress)
        if not progress.copying and progress.passes:
            if progress.passes < 4:
                write(pair.source, pair.topic, values(0, 50), progress.passes % 3)
            elif progress.left == 0:
                clock.go_on(LONG)

    record = replicate(pair.flow, RunOptions("r", max_seconds=LONG), Here(), more)
    assert record.state is RunState.DONE
    assert record.passes >= 3
    assert record.records == sum(partition.position or 0 for partition in record.partitions) >= 200
    assert seen[-1].records == record.records
    assert seen[-1].left == 0
    pair.assert_equal()


def test_only_the_topics_of_this_run(pair: Pair, flow: FlowSettings) -> None:
    other = Pair(flow, pair.source, pair.target, f"{pair.topic}-other", 1)
    write(pair.source, pair.topic, values(0, 10))
    write(other.source, other.topic, values(0, 10))
    record = run(flow, topics=(".*-other",))
    assert [partition.upstream_topic for partition in record.partitions] == [other.topic]
    assert read(pair.target, pair.copy) == []
    record = run(flow, topics_exclude=(".*-other",))
    # The record still tells where the others stand, without counting their records again.
    assert record.records == 10
    assert {partition.upstream_topic for partition in record.partitions} == {pair.topic, other.topic}
    pair.assert_equal()
    other.assert_equal()


def test_records_deleted_at_the_source_are_reported_and_skipped_only_when_told(pair: Pair) -> None:
    write(pair.source, pair.topic, values(0, 20), 0)
    write(pair.source, pair.topic, values(0, 20), 1)
    run(pair.flow)
    write(pair.source, pair.topic, values(20, 40), 0)
    write(pair.source, pair.topic, values(20, 40), 1)
    delete_records(pair.source, pair.topic, 0, 30)
    record = run(pair.flow)
    assert record.state is RunState.FAILED
    (failed,) = record.failed_partitions
    assert failed.partition == 0
    assert failed.error is not None
    assert "10 offsets were deleted at the source" in failed.error
    assert failed.lost_records == 10
    record = run(replace(pair.flow, on_data_loss=OnDataLoss.SKIP))
    assert record.state is RunState.DONE
    assert sum(partition.lost_records for partition in record.partitions) == 10
    assert any("10 offsets were deleted" in note for note in record.notes)
    copied = [seen.value for seen in read(pair.target, pair.copy, 0)]
    assert copied == values(0, 20) + values(30, 40)
    assert len(read(pair.target, pair.copy, 1)) == 40


def test_a_topic_created_again_is_noticed(pair: Pair) -> None:
    write(pair.source, pair.topic, values(0, 20))
    run(pair.flow)
    delete_topic(pair.source, pair.topic)
    pair.source.create_topic(pair.topic, 3)
    write(pair.source, pair.topic, values(100, 150))
    record = run(pair.flow)
    assert record.state is RunState.FAILED
    assert "deleted and created again" in str(record.failed_partitions[0].error)
    record = run(replace(pair.flow, on_data_loss=OnDataLoss.RESET))
    assert record.state is RunState.DONE
    assert [seen.value for seen in read(pair.target, pair.copy)] == values(0, 20) + values(100, 150)
    assert run(pair.flow).state is RunState.DONE


def test_a_start_position_is_applied_once_a_run_id(pair: Pair) -> None:
    write(pair.source, pair.topic, values(0, 10))
    run(pair.flow, run_id="first")
    for _ in range(2):
        run(pair.flow, run_id="second", start=StartPosition.parse("earliest"))
    assert [seen.value for seen in read(pair.target, pair.copy)] == values(0, 10) * 2


def test_a_later_attempt_starts_what_the_first_could_not(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for partition in range(3):
        write(pair.source, pair.topic, values(0, 10), partition)
    run(pair.flow, run_id="first")
    start = StartPosition.parse("timestamp:0")
    at, mute = SourceView.at, TopicPair(pair.topic, 1)

    def without_one(view: SourceView, partitions: Iterable[TopicPair], timestamp_ms: int) -> Listed:
        found, faults = at(view, [place for place in partitions if place != mute], timestamp_ms)
        return found, {**faults, mute: "no leader"}

    with monkeypatch.context() as patch:
        patch.setattr(SourceView, "at", without_one)
        record = run(replace(pair.flow, retry_timeout_seconds=0.5), run_id="second", start=start)
    assert record.state is RunState.FAILED
    (failed,) = record.failed_partitions
    assert failed.partition == 1
    assert "cannot start at timestamp:0, as requested for this run: no leader" in str(failed.error)
    for _ in range(2):
        run(pair.flow, run_id="second", start=start)
    for partition in range(3):
        assert [seen.value for seen in read(pair.target, pair.copy, partition)] == values(0, 10) * 2


def test_a_topic_deleted_during_a_run_fails_alone(
    pair: Pair, flow: FlowSettings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in ("passes.PASS_SECONDS", "passes._SHORT_PASS_SECONDS", "tracked_partitions._LOOK_AGAIN_SECONDS"):
        monkeypatch.setattr(f"srm_common.replication.driver.{seconds}", 0.3)
    other = Pair(flow, pair.source, pair.target, f"{pair.topic}-other", 1)
    write(pair.source, pair.topic, values(0, 10))
    write(other.source, other.topic, values(0, 10))

    deleted: list[str] = []

    def delete(progress: Progress) -> None:
        if progress.passes and not progress.copying and not deleted:
            deleted.append(other.topic)
            delete_topic(pair.source, other.topic)
            write(pair.source, pair.topic, values(10, 20))
            # Topics are listed now and then.
            clock.go_on(LONG / 2)
        elif deleted and progress.passes > 1 and not progress.copying:
            clock.go_on(LONG)

    record = replicate(flow, RunOptions("r", max_seconds=LONG), Here(), delete)
    assert record.state is RunState.FAILED
    (failed,) = record.failed_partitions
    assert failed.upstream_topic == other.topic
    assert "was deleted at the source" in str(failed.error)
    pair.assert_equal()


def test_a_backlog_is_copied_in_several_passes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srm_common.replication.driver.passes.PASS_SECONDS", 0.01)
    for partition in range(3):
        write(pair.source, pair.topic, [bytes(1000) for _ in range(3000)], partition, batch_size=16_000)
    small = replace(pair.flow, chunk_bytes=100_000, fetch_partition_bytes=50_000, fetch_bytes=150_000)
    record = run(small)
    assert (record.state, record.records, record.backlog.most) == (RunState.DONE, 9000, 0)
    assert record.passes > 2
    # Passes end between batches: nothing had to be taken apart.
    assert sum(partition_record.reencoded_records for partition_record in record.partitions) == 0
    pair.assert_equal()


def test_at_least_once(pair: Pair) -> None:
    flow = replace(pair.flow, exactly_once=False)
    write(pair.source, pair.topic, values(0, 300))
    here = Here()
    assert run(flow, here).state is RunState.DONE
    assert {task.identity for task in here.passes[0]} == {None}
    pair.assert_equal()
    assert run(flow).records == 0


@pytest.mark.usefixtures("impatient")
def test_an_unreachable_source_is_one_sentence(pair: Pair) -> None:
    port = ReservedPort()
    try:
        nobody = ClusterSettings.plaintext(pair.flow.name.source, port.address)
        with pytest.raises(UnreachableCluster, match=pair.flow.name.source):
            run(replace(pair.flow, source=nobody, admin_timeout_ms=2000, retry_timeout_seconds=1.0))
    finally:
        port.release()


def delete_records(kafka: Cluster, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(60)
