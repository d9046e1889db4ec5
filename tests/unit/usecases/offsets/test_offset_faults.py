"""Source offsets and checkpoints while a cluster refuses, goes away between two steps, or answers nothing."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, SrmError, UnreachableCluster
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.repair_offsets import repair_offsets
from srm_common.usecases.offsets.source_offsets import committed_now
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.unit.usecases.fakes import CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, Sides

PLACE = TopicPartition("orders", 0)
TO_THREE = Request("set", offsets={PLACE: 3})


@pytest.fixture
def copied(sides: Sides) -> Sides:
    """Ten records copied; the group ``billing`` stands at 4 of them."""
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(10)])
    sides.refresh()
    assert sides.run().records == 10
    sides.source.commit("billing", {("orders", 0): 4})
    sides.set(admin_timeout_ms=20_000)
    return sides


def checkpoints(sides: Sides) -> int:
    return len(sides.target.records("a.checkpoints.internal"))


def test_a_dry_run_asks_for_no_change(copied: Sides) -> None:
    for kafka in (copied.source, copied.target):
        kafka.forget_requests()
    (edit,) = edit_source_offsets(copied.flow, TO_THREE, dry_run=True)
    assert (edit.before, edit.after) == (10, 3)
    assert copied.source.changes() == copied.target.changes() == []
    assert committed_now(copied.flow) == {PLACE: 10}


def test_an_edit_that_may_not_be_written_moves_nothing(copied: Sides) -> None:
    topic = names.offsets_topic("a")
    with (
        copied.target.refuse("Produce", TOPIC_AUTHORIZATION_FAILED, when=topic),
        pytest.raises(AccessDenied, match=rf"writing to {topic} is not allowed at b; .*Write on topic '{topic}'"),
    ):
        edit_source_offsets(copied.flow, TO_THREE)
    assert committed_now(copied.flow) == {PLACE: 10}
    edit_source_offsets(copied.flow, TO_THREE)
    assert committed_now(copied.flow) == {PLACE: 3}


def test_an_edit_whose_commit_is_not_answered_is_whole(copied: Sides) -> None:
    copied.target.drop_answer("EndTxn")
    edit_source_offsets(copied.flow, TO_THREE)
    assert committed_now(copied.flow) == {PLACE: 3}
    assert copied.run("again").records == 7


def test_an_edit_whose_target_goes_away_before_the_commit_moves_nothing(copied: Sides) -> None:
    fault = copied.target.refuse("EndTxn", CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(SrmError):
        edit_source_offsets(copied.flow, TO_THREE)
    fault.end()
    # The next owner aborts what was left open.
    assert copied.run("next").records == 0
    assert committed_now(copied.flow) == {PLACE: 10}


def test_a_repair_of_what_is_whole_changes_nothing(copied: Sides) -> None:
    copied.target.forget_requests()
    assert repair_offsets(copied.flow) == []
    assert not [call for call in copied.target.changes() if call.api == "Produce"]


def test_checkpoints_of_a_source_that_is_gone_come_when_it_is_back(copied: Sides) -> None:
    copied.set(admin_timeout_ms=2000)
    copied.source.go_away()
    with pytest.raises(UnreachableCluster, match="'a'"):
        sync_checkpoints(copied.flow)
    assert checkpoints(copied) == 0
    copied.source.come_back()
    copied.set(admin_timeout_ms=20_000)
    assert sync_checkpoints(copied.flow).checkpoints == 1


def test_checkpoints_that_may_not_be_written_come_with_the_right(copied: Sides) -> None:
    topic = "a.checkpoints.internal"
    with (
        copied.target.refuse("Produce", TOPIC_AUTHORIZATION_FAILED, when=topic),
        pytest.raises(AccessDenied, match=topic),
    ):
        sync_checkpoints(copied.flow)
    assert checkpoints(copied) == 0
    report = sync_checkpoints(copied.flow)
    assert (report.checkpoints, report.faults) == (1, ())
    # Nothing came twice.
    assert sync_checkpoints(copied.flow).checkpoints == 0
    assert checkpoints(copied) == 1


def test_offset_syncs_that_may_not_be_written_keep_no_checkpoint(copied: Sides) -> None:
    topic = names.offset_syncs_topic(copied.flow)
    with copied.source.refuse("Produce", TOPIC_AUTHORIZATION_FAILED, when=topic):
        report = sync_checkpoints(copied.flow)
    assert copied.source.records(topic) == []
    (fault,) = report.faults
    assert topic in fault
    assert (report.offset_syncs, report.checkpoints, checkpoints(copied)) == (0, 1, 1)
    # They are news to the next round.
    assert sync_checkpoints(copied.flow).offset_syncs == 2


def test_a_checkpoint_whose_answer_is_lost_is_there_once(copied: Sides) -> None:
    copied.target.drop_answer("Produce")
    assert sync_checkpoints(copied.flow).checkpoints == 1
    assert checkpoints(copied) == 1
