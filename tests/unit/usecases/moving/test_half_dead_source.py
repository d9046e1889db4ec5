"""A failover from a source that answers, but not to everything: a broker of two is gone, or swallows requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from srm_common.domain.amount import Amount
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, PositionReport, StepState
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.testing import FakeCluster
from srm_common.usecases.moving import left_cluster
from srm_common.usecases.moving.failover import Move
from srm_common.usecases.moving.left_cluster import LeftCluster
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import encode_segment, segment_partition
from tests.unit.usecases.fakes import CLUSTER_AUTHORIZATION_FAILED, Sides

REQUEST = MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, wait_seconds=0.0)


@pytest.fixture
def halves(target_kafka: FakeCluster) -> Iterator[Sides]:
    """``orders-0`` lies on the first of two brokers, ``orders-1`` on the second; copied, and a checkpoint at 60."""
    with (
        FakeCluster(2, name="halves", settings={"offsets.topic.num.partitions": "1"}) as source,
        closing(Sides(source, target_kafka)) as sides,
    ):
        sides.impatient()
        source.create_topic("orders", 2)
        for partition in range(2):
            source.write("orders", [(b"k", b"%d" % number) for number in range(100)], partition)
        sides.refresh()
        assert sides.run().records == 200
        source.commit("billing", {("orders", 0): 60})
        sync_checkpoints(sides.clusters(), at_once=True)
        sides.close()
        yield sides


def moved(sides: Sides) -> MoveReport:
    """All steps without a last pass, as a DAG does them: until one fails."""
    move = Move(sides.flow, REQUEST)
    for step in REQUEST.steps:
        if move.run(step).state is StepState.FAILED:
            break
    return move.report


def segment_record(sides: Sides, segment: Segment) -> NewRecord:
    topic = "mm2-offset-segments.a.internal"
    partitions = sides.clusters().target.reader.partitions(topic)
    partition = segment_partition(segment.topic, segment.partition, partitions)
    return NewRecord(topic, partition, *encode_segment(segment))


def said(report: MoveReport) -> str:
    return "\n".join(sentence for step in report.steps for sentence in step.sentences)


def test_partitions_without_a_leader_do_not_stop_a_failover(halves: Sides) -> None:
    halves.source.write("orders", [(b"k", b"more")] * 5)
    halves.source.stop(2)
    report = moved(halves)
    assert report.finished, said(report)
    assert "5 offsets of orders-0 are not copied yet; how much is not copied of the rest is unknown" in said(report)
    assert "orders-1 at a has no leader" in said(report)
    # What the living half says of the groups is exact.
    assert halves.target.committed("billing") == {("a.orders", 0): 60}
    assert report.read_again.most == 0


def test_where_state_of_the_flow_back_has_no_leader_checkpoints_have_to_do(halves: Sides) -> None:
    halves.source.create_topic("mm2-offsets.b.internal", 2)
    halves.source.stop(2)
    report = moved(halves)
    assert report.finished, said(report)
    assert "'a' does not answer everything" in said(report)
    assert halves.target.committed("billing") == {("a.orders", 0): 60}


def test_requests_that_are_swallowed_are_not_waited_for_long(halves: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    halves.set(admin_timeout_ms=60_000)
    monkeypatch.setattr(left_cluster, "_REQUEST_SECONDS_ON_A_BAD_DAY", 2.0)
    halves.source.silence("ListOffsets")
    report = moved(halves)
    assert report.finished, said(report)
    assert "how much is not copied is unknown" in said(report)
    assert "for 2 s" in said(report)


def test_records_that_cannot_be_counted_are_not_waited_for_long(halves: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map has only the ends of a stretch, and the records of the source in it are to be counted."""
    record = segment_record(halves, Segment("orders", 0, 0, 110, 0, 100, (OffsetSpan(0, 110, 0, 100),)))
    halves.target.write(record.topic, [(record.key, record.value)], partition=record.partition)
    halves.set(admin_timeout_ms=60_000)
    monkeypatch.setattr(left_cluster, "_REQUEST_SECONDS_ON_A_BAD_DAY", 2.0)
    halves.source.silence("Fetch")
    report = moved(halves)
    assert report.finished, said(report)
    (position,) = report.positions
    assert position.applied == 50
    assert "it could not be counted" in position.reason
    assert position.reason.endswith("for 2 s")


def test_state_of_the_flow_back_is_not_waited_for_long(halves: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    halves.source.create_topic("mm2-offsets.b.internal")
    halves.source.write("mm2-offsets.b.internal", [(b"key", b"value")])
    halves.set(admin_timeout_ms=60_000)
    monkeypatch.setattr(left_cluster, "_REQUEST_SECONDS_ON_A_BAD_DAY", 2.0)
    halves.source.silence("Fetch")
    report = moved(halves)
    assert report.finished, said(report)
    assert "mm2-offsets.b.internal-0 of a cannot be read" in said(report)
    assert "for 2 s" in said(report)


def test_groups_whose_use_is_unknown_may_read_more(halves: Sides) -> None:
    position = PositionReport("billing", "a.orders", 0, "orders", 60, applied=60, read_again=Amount.at_most(0))
    with halves.source.refuse("ListGroups", CLUSTER_AUTHORIZATION_FAILED):
        (found,) = LeftCluster(halves.clusters(), REQUEST).with_readers_left((position,))
    assert found.read_again.most is None
    assert found.reason.startswith("whether the group is still in use on 'a' is unknown: cluster 'a' ")


def test_a_target_that_does_not_answer_everything_stops_it(halves: Sides) -> None:
    halves.target.refuse("ListGroups", CLUSTER_AUTHORIZATION_FAILED)
    report = moved(halves)
    assert report.steps[-1].failed
    assert halves.target.committed("billing") == {}
