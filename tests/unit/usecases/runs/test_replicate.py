"""Whole runs of a flow between fake clusters, in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from srm_common.domain.offsets.segments import Segment
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import present_state_topics
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from tests.unit.usecases.fakes import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, Sides


def written(sides: Sides, first: int, count: int, partition: int = 0) -> list[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    sides.source.write("orders", [(b"k", value) for value in values], partition)
    return values


def positions(sides: Sides) -> dict[TopicPartition, int]:
    with StateReader(sides.flow.target) as reader:
        state = present_state_topics(reader, sides.flow)
    return dict(read_source_offsets(sides.flow, state))


def test_a_run_copies_everything_once_and_the_next_one_goes_on(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    first = [written(sides, 0, 5), written(sides, 5, 3, partition=1)]
    sides.refresh()
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 8)
    assert [sides.values("a.orders", number) for number in (0, 1)] == first
    assert positions(sides) == {("orders", 0): 5, ("orders", 1): 3}
    assert sides.run("again").records == 0
    more = written(sides, 8, 4)
    assert sides.run("more").records == 4
    assert sides.values("a.orders") == first[0] + more
    assert set(sides.target.transactions().values()) <= {"Empty", "CompleteCommit"}


def test_holes_of_compaction_are_mapped(sides: Sides) -> None:
    sides.source.create_topic("orders", config={"cleanup.policy": "compact"})
    for number in range(6):
        sides.source.write("orders", [(b"k%d" % (number % 2), b"%d" % number)])
    sides.source.compact("orders")
    assert [record.offset for record in sides.source.records("orders")] == [4, 5]
    sides.refresh()
    assert sides.run().records == 2
    assert sides.values("a.orders") == [b"4", b"5"]
    assert positions(sides) == {("orders", 0): 6}
    with StateReader(sides.flow.target) as reader:
        state = present_state_topics(reader, sides.flow)
        log = SegmentLog(reader, state.segments_topic, state.segments_partitions)
        log.read_new({})
        newest = log.newest("orders", 0)
    assert isinstance(newest, Segment)


def test_what_retention_has_taken_is_said(sides: Sides) -> None:
    sides.source.create_topic("orders")
    written(sides, 0, 4)
    sides.refresh()
    assert sides.run().records == 4
    written(sides, 4, 4)
    sides.source.delete_records("orders", 6)
    record = sides.run("r2")
    assert record.state is RunState.FAILED
    assert "orders-0" in str(record)
    assert sides.values("a.orders") == [b"0", b"1", b"2", b"3"]


def test_a_topic_that_may_not_be_read_does_not_stop_the_others(sides: Sides) -> None:
    for topic in ("orders", "orders-eu"):
        sides.source.create_topic(topic)
        sides.source.write(topic, [(b"k", b"v")])
    sides.refresh()
    with sides.source.refuse("Fetch", TOPIC_AUTHORIZATION_FAILED, when="orders-eu"):
        record = sides.run()
    assert record.state is not RunState.DONE
    assert (sides.values("a.orders"), sides.values("a.orders-eu")) == ([b"v"], [])
    assert sides.run("r2").state is RunState.DONE
    assert sides.values("a.orders-eu") == [b"v"]


def test_a_lost_answer_to_a_commit_copies_nothing_twice(sides: Sides) -> None:
    sides.source.create_topic("orders")
    values = written(sides, 0, 6)
    sides.refresh()
    sides.target.drop_answer("EndTxn")
    assert sides.run().state is RunState.DONE
    assert sides.values("a.orders") == values
    assert positions(sides) == {("orders", 0): 6}


@pytest.mark.parametrize("api", ["Produce", "EndTxn", "InitProducerId"])
def test_a_target_that_is_gone_for_a_moment_is_waited_for(sides: Sides, api: str) -> None:
    sides.source.create_topic("orders")
    values = written(sides, 0, 6)
    sides.set(retry_timeout_seconds=20.0)
    sides.refresh()
    sides.run("before")
    values += written(sides, 6, 6)
    sides.target.after(2, api).go_away(seconds=0.1)
    assert sides.run().state is RunState.DONE
    assert sides.values("a.orders") == values
    assert positions(sides) == {("orders", 0): 12}


def test_a_run_that_begins_while_the_source_is_away_waits_for_it(sides: Sides) -> None:
    """What it needs of the target is there, so that the list of topics is the first that it asks the source for."""
    flow = sides.set(offset_syncs_topic_location="target", retry_timeout_seconds=180.0)
    sides.source.create_topic("orders")
    values = written(sides, 0, 10)
    sides.refresh()
    sides.source.go_away()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sides.run)
        try:
            for _ in range(2):
                with pytest.raises(UnreachableCluster):
                    replicated_topics(replace(flow, admin_timeout_ms=1000))
            assert not wait([running], 1.0).done
        finally:
            sides.source.come_back()
        record = running.result(300)
    assert (record.state, record.records) == (RunState.DONE, 10)
    assert sides.values("a.orders") == values


def test_checkpoints_follow_groups_of_the_source(sides: Sides) -> None:
    sides.source.create_topic("orders")
    written(sides, 0, 10)
    sides.refresh()
    sides.run()
    sides.source.commit("billing", {("orders", 0): 4})
    sides.set(sync_group_offsets=True, sync_group_offsets_interval_seconds=0.0)
    report = sync_checkpoints(sides.flow)
    assert report.faults == ()
    assert len(sides.target.records("a.checkpoints.internal")) == 1
    assert sides.target.committed("billing") == {("a.orders", 0): 4}
    # Somebody reads at the target: its offsets are its own.
    sides.target.join("billing", "reader", ["a.orders"])
    sides.source.commit("billing", {("orders", 0): 7})
    sync_checkpoints(sides.flow)
    assert sides.target.committed("billing") == {("a.orders", 0): 4}
    sides.target.leave("billing", "reader")
    sync_checkpoints(sides.flow)
    assert sides.target.committed("billing") == {("a.orders", 0): 7}


def test_a_group_that_may_not_be_seen_does_not_stop_the_others(sides: Sides) -> None:
    sides.source.create_topic("orders")
    written(sides, 0, 10)
    sides.refresh()
    sides.run()
    for group in ("billing", "secret"):
        sides.source.commit(group, {("orders", 0): 4})
    sides.source.refuse("OffsetFetch", GROUP_AUTHORIZATION_FAILED, when="secret")
    report = sync_checkpoints(sides.flow)
    assert any("secret" in str(fault) for fault in report.faults)
    assert len(sides.target.records("a.checkpoints.internal")) == 1


def test_heartbeats_are_written_where_they_are_wanted(sides: Sides) -> None:
    sides.set(emit_heartbeats=True, heartbeats_topic_location="both")
    with FlowClusters(sides.flow, clock=lambda: 1_700_000_000.0) as clusters:
        beat = emit_heartbeat(clusters)
    assert beat.timestamp_ms == 1_700_000_000_000
    for kafka in (sides.source, sides.target):
        (record,) = kafka.records("heartbeats")
        assert record.timestamp_ms == beat.timestamp_ms
        assert kafka.topic_config("heartbeats")["cleanup.policy"] == "compact"


def test_a_cluster_that_takes_no_heartbeat_does_not_keep_the_other_from_its_own(sides: Sides) -> None:
    sides.set(emit_heartbeats=True, heartbeats_topic_location="both")
    sides.source.refuse("Produce", TOPIC_AUTHORIZATION_FAILED, when="heartbeats")
    with pytest.raises(AccessDenied, match="Write on topic 'heartbeats'"):
        emit_heartbeat(sides.flow)
    assert sides.source.records("heartbeats") == []
    assert len(sides.target.records("heartbeats")) == 1
