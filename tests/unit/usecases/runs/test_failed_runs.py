"""What a run that fails at its start leaves to later runs: all that was known of the copies."""

from __future__ import annotations

import pytest

from srm_common.domain.runs.run_record import PartitionRecord, RunState
from srm_common.errors import SrmError, UnreachableCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.run_journal import last_run
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides


@pytest.fixture
def copied(sides: Sides) -> Sides:
    """Eight records, copied in two runs: none can be lost with the other."""
    sides.set(admin_timeout_ms=2000)
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(5)])
    sides.refresh()
    sides.run("first")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(5, 8)])
    assert sides.run("second").records == 3
    return sides


def partition(sides: Sides) -> PartitionRecord:
    record = last_run(sides.flow)
    assert record is not None
    (found,) = record.partitions
    return found


def test_an_outage_of_the_source_hides_no_loss_at_the_target(copied: Sides) -> None:
    copied.target.move_leader("a.orders", keep=3)
    copied.close()
    copied.source.go_away()
    with pytest.raises(UnreachableCluster):
        copied.run("outage")
    copied.close()
    copied.source.come_back()
    known = last_run(copied.flow)
    assert known is not None
    assert (known.run_id, known.state, known.records) == ("outage", RunState.FAILED, 0)
    copied.source.write("orders", [(b"k", b"8")])
    record = copied.run("after")
    assert record.state is RunState.FAILED
    assert "the target lost records that were copied" in str(record.partitions[0].error)
    assert copied.values("a.orders") == []


def test_a_run_that_is_stopped_at_once_forgets_nothing(copied: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    before = partition(copied)

    def stop(clusters: FlowClusters, **_: object) -> None:
        raise KeyboardInterrupt("stopped by signal 15")

    with monkeypatch.context() as patched:
        patched.setattr(FlowClusters, "state_topics", stop)
        with pytest.raises(KeyboardInterrupt):
            copied.run("stopped")
    after = partition(copied)
    assert (after.position, after.copy_end, after.records_total) == (8, before.copy_end, 8)


def test_a_partition_that_was_not_listed_stands_where_it_stood(copied: Sides) -> None:
    before = partition(copied)
    copied.source.refuse("ListOffsets", TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(SrmError):
        copied.run("refused")
    after = partition(copied)
    assert (after.position, after.end, after.copy_end, after.lag) == (8, None, before.copy_end, None)


def test_a_record_that_cannot_be_read_is_not_replaced(copied: Sides) -> None:
    copied.clusters().state.write("run", {"version": 99})
    remedy = "version 99.*; write a tombstone with the key 'run' to srm-flow-state.a.internal on 'b' to drop it"
    with pytest.raises(SrmError, match=remedy):
        copied.run("older")
    assert copied.clusters().state.read("run") == {"version": 99}
