"""Flows without any progress, whose topics MirrorMaker 2 may have copied."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import names
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import AccessDenied, SrmError, StateTopicInvalid
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
