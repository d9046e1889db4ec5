"""Flows without any progress, whose topics MirrorMaker 2 may have copied."""

from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.flow import names
from srm_common.domain.flow.start_position import StartKind, StartPosition, TopicStart
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import AccessDenied, SrmError, StateTopicInvalid
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.runs.run_journal import last_run
from srm_common.wire.state.mm2 import encode_offset_sync
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides


@pytest.fixture
def synced(sides: Sides) -> Sides:
    """An offset sync tells of ``orders-0``; the copy exists, and nothing says how far it goes."""
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(5)])
    sides.refresh()
    syncs = names.offset_syncs_topic(sides.flow)
    if syncs not in sides.source.topics():
        sides.source.create_topic(syncs, config={"cleanup.policy": "compact"})
    sides.source.write(syncs, [(b"garbage", b"garbage"), encode_offset_sync(OffsetSync("orders", 0, 4, 4))])
    return sides


def test_a_copy_that_has_records_is_not_copied_again(synced: Sides) -> None:
    synced.target.write("a.orders", [(b"k", b"%d" % number) for number in range(5)])
    with pytest.raises(StateTopicInvalid, match=r"MirrorMaker 2 has copied orders-0: .*srm-control takeover"):
        synced.run()
    assert len(synced.values("a.orders")) == 5
    record = last_run(synced.flow)
    assert record is not None
    assert (record.state, record.error_kind) == (RunState.FAILED, "StateTopicInvalid")


@pytest.fixture
def without_syncs(sides: Sides) -> Sides:
    """As after a restore by a tool that leaves the state topics out, of a flow that writes no offset syncs."""
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(5)])
    sides.set(emit_offset_syncs=False)
    return sides


def test_a_copy_that_has_records_tells_without_syncs(without_syncs: Sides) -> None:
    without_syncs.refresh()
    without_syncs.target.write("a.orders", [(b"k", b"%d" % number) for number in range(5)])
    with pytest.raises(StateTopicInvalid, match=r"the copy of orders-0 already holds records: .*srm-control takeover"):
        without_syncs.run()
    with pytest.raises(StateTopicInvalid):
        without_syncs.run("again")
    assert len(without_syncs.values("a.orders")) == 5
    edit_source_offsets(without_syncs.flow, Request("reset", topics=(".*",), to=StartPosition(StartKind.EARLIEST)))
    assert without_syncs.run("r2").records == 5


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": IdentityReplicationPolicy(source_alias="a")},
        {"start_positions": (TopicStart(".*", StartPosition(StartKind.LATEST)),)},
    ],
    ids=["a name that applications use", "a start of its own"],
)
def test_records_of_others_are_no_progress(without_syncs: Sides, settings: dict[str, Any]) -> None:
    without_syncs.set(**settings)
    without_syncs.refresh()
    (copy,) = without_syncs.target.topics().keys() & {"orders", "a.orders"}
    without_syncs.target.write(copy, [(b"k", b"own")])
    assert without_syncs.run().state is RunState.DONE


def test_a_chunk_that_was_aborted_is_no_progress(without_syncs: Sides) -> None:
    """Its records move the end of the copy, although nobody sees them."""
    without_syncs.set(retry_timeout_seconds=0.5)
    without_syncs.refresh()
    offsets = names.offsets_topic("a")
    with without_syncs.target.refuse("Produce", TOPIC_AUTHORIZATION_FAILED, when=offsets):
        assert without_syncs.run().state is RunState.FAILED
    assert without_syncs.target.log("a.orders").end > 0
    assert without_syncs.run("r2").records == 5


def test_the_partition_that_has_no_sync_is_not_blamed_on_mirror_maker(synced: Sides) -> None:
    synced.set(topics=(r"orders.*",))
    synced.source.create_topic("orders.other")
    synced.refresh()
    synced.target.write("a.orders.other", [(b"k", b"v")])
    with pytest.raises(StateTopicInvalid, match=r"the copy of orders\.other-0 already holds records"):
        synced.run()


def test_an_empty_copy_is_copied_from_the_start(synced: Sides) -> None:
    assert synced.run().records == 5


def test_syncs_that_may_not_be_read_start_nothing(synced: Sides) -> None:
    with (
        synced.source.refuse("Fetch", TOPIC_AUTHORIZATION_FAILED, when=names.offset_syncs_topic(synced.flow)),
        pytest.raises(AccessDenied),
    ):
        synced.run()
    assert synced.values("a.orders") == []
    assert synced.run("r2").records == 5


def test_a_copy_that_does_not_tell_its_end_starts_nothing(synced: Sides) -> None:
    with (
        synced.target.refuse("ListOffsets", TOPIC_AUTHORIZATION_FAILED, when="a.orders"),
        pytest.raises(SrmError, match=r"orders"),
    ):
        synced.run()
    assert synced.values("a.orders") == []
    assert synced.run("r2").records == 5
