"""Moves of groups that stand where MirrorMaker 2 copied, or where the offset map was lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

from srm_common.domain.flow.names import StateKey
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepState
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.usecases.moving.failover import Move, failback
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.wire.state.mm2 import encode_offset_sync, partition_for, source_offset_key, source_offset_value
from tests.unit.usecases.fakes import Sides

COPY = ("a.orders", 0)


def copied_by_mirror_maker(sides: Sides, records: int) -> None:
    """The next records of ``orders``, and its progress behind them."""
    source, target = sides.source, sides.target
    start = len(source.records("orders"))
    source.write("orders", [(b"k%d" % number, b"%d" % number) for number in range(start, start + records)])
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    for record in source.records("orders")[start:]:
        producer.produce("a.orders", key=record.key, value=record.value, partition=0, timestamp=record.timestamp_ms)
    producer.flush(60)
    key = source_offset_key("a", "orders", 0)
    value = source_offset_value(start + records - 1)
    target.write("mm2-offsets.a.internal", [(key, value)], partition=partition_for(key, 5))


@pytest.fixture
def migrated(sides: Sides) -> Sides:
    """The flow follows MirrorMaker 2, which copied 1000 records; nothing has come since."""
    sides.source.create_topic("orders")
    sides.target.create_topic("a.orders")
    sides.target.create_topic("mm2-offsets.a.internal", 5, config={"cleanup.policy": "compact"})
    copied_by_mirror_maker(sides, 1000)
    sides.refresh()
    assert sides.run().records == 0
    return sides


def all_steps(move: Move, request: MoveRequest) -> MoveReport:
    for step in request.steps:
        assert move.run(step).state is not StepState.FAILED, move.report.render()
    return move.report


def synced(sides: Sides, *offsets: int) -> None:
    """What MirrorMaker 2 left of its pairs of offsets; both sides are the same here."""
    pairs = [encode_offset_sync(OffsetSync("orders", 0, offset, offset)) for offset in offsets]
    sides.source.write("mm2-offset-syncs.b.internal", pairs)


def moved(sides: Sides, mode: MoveMode = MoveMode.CONTROLLED) -> MoveReport:
    sides.close()
    request = MoveRequest(MoveKind.FAILOVER, mode, wait_seconds=2.0)
    return all_steps(Move(sides.flow, request), request)


def gone_back(sides: Sides) -> MoveReport:
    sides.close()
    request = MoveRequest(MoveKind.FAILBACK, MoveMode.CONTROLLED, wait_seconds=2.0)
    return all_steps(failback(sides.flow, None, request), request)


def said(report: MoveReport) -> str:
    return "\n".join(_sentences(report))


def _sentences(report: MoveReport) -> Iterable[str]:
    return (sentence for step in report.steps for sentence in step.sentences)


def test_the_way_back_skips_nothing_that_mirror_maker_2_copied(migrated: Sides) -> None:
    migrated.target.commit("billing", {COPY: 500})
    migrated.target.commit("reports", {COPY: 1000})
    report = gone_back(migrated)
    assert migrated.source.committed("billing") == {("orders", 0): 0}
    assert migrated.source.committed("reports") == {("orders", 0): 1000}
    assert [position.read_again.most for position in report.positions] == [500, 0]
    assert "does not say what was copied of offsets 0 to 1000" in report.positions[0].reason


def test_the_way_back_skips_nothing_where_the_map_was_lost(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(100)])
    sides.refresh()
    assert sides.run().records == 100
    sides.target.commit("billing", {COPY: 50})
    sides.target.delete_topic("mm2-offset-segments.a.internal")
    report = gone_back(sides)
    assert sides.source.committed("billing") == {("orders", 0): 0}
    assert report.read_again.most == 50


def test_offset_syncs_translate_where_the_flow_has_copied_nothing_itself(migrated: Sides) -> None:
    synced(migrated, 0, 500, 999)
    migrated.source.commit("billing", {("orders", 0): 1000})
    migrated.source.commit("reports", {("orders", 0): 500})
    migrated.source.commit("slow", {("orders", 0): 100})
    round_of_checkpoints = sync_checkpoints(migrated.clusters(), at_once=True)
    assert (round_of_checkpoints.checkpoints, round_of_checkpoints.untranslated) == (3, ())
    report = moved(migrated)
    found = {position.group: (position.applied, position.read_again.most) for position in report.positions}
    assert found == {"billing": (1000, 0), "reports": (500, 0), "slow": (1, 499)}


def test_without_offset_syncs_the_reason_is_not_that_nothing_was_copied(migrated: Sides) -> None:
    migrated.source.commit("billing", {("orders", 0): 1000})
    (untranslated,) = sync_checkpoints(migrated.clusters(), at_once=True).untranslated
    assert untranslated.reason == "it was copied up to upstream offset 1000, but the offset map has nothing of it"
    (position,) = moved(migrated).positions
    assert (position.applied, position.read_again.most) == (0, 1000)


@pytest.fixture
def behind(migrated: Sides) -> Sides:
    """The flow has copied ten records since; ``slow`` stands before its map, ``billing`` at the end of MirrorMaker 2's
    part."""
    migrated.source.write("orders", [(b"k", b"new")] * 10)
    assert migrated.run().records == 10
    migrated.source.commit("billing", {("orders", 0): 1000})
    migrated.source.commit("slow", {("orders", 0): 300})
    report = sync_checkpoints(migrated.clusters(), at_once=True)
    assert [untranslated.group for untranslated in report.untranslated] == ["slow"]
    return migrated


def test_without_its_source_a_move_takes_along_groups_that_have_no_checkpoint(behind: Sides) -> None:
    behind.source.go_away()
    report = moved(behind, MoveMode.DISASTER)
    found = {position.group: (position.upstream, position.applied) for position in report.positions}
    assert found == {"billing": (1000, 1000), "slow": (300, 0)}
    assert behind.target.committed("slow") == {COPY: 0}
    assert report.positions[1].read_again.most == 1011  # with the commit marker
    assert "none is skipped" in said(report)


def test_a_group_that_was_moved_back_does_not_resume_at_its_old_checkpoint(behind: Sides) -> None:
    behind.source.commit("billing", {("orders", 0): 200})
    sync_checkpoints(behind.clusters(), at_once=True)
    behind.source.go_away()
    report = moved(behind, MoveMode.DISASTER)
    assert behind.target.committed("billing") == {COPY: 0}
    assert report.positions[0].upstream == 200


def test_a_move_does_not_promise_anything_of_positions_without_a_place(behind: Sides) -> None:
    state = behind.clusters().state
    record = state.read(StateKey.UNTRANSLATED)
    assert record is not None
    gone = ["slow", "orders-gone", 0, 5, "its copy was deleted"]
    state.write(StateKey.UNTRANSLATED, record | {"positions": [*record["positions"], gone], "left_out": 3})
    behind.source.go_away()
    text = said(moved(behind, MoveMode.DISASTER))
    assert "where groups have an offset none is skipped; auto.offset.reset applies to 4 positions without one" in text
    assert "group slow has no offset in orders-gone-0: its copy was deleted" in text
    assert "3 more positions had no checkpoint in the flow's last round" in text


def test_unreadable_state_does_not_stop_a_move_and_nothing_is_promised_by_it(behind: Sides) -> None:
    state = behind.clusters().state
    for key in (StateKey.UNTRANSLATED, StateKey.RUN):
        record = state.record(key, {})
        behind.target.write(record.topic, [(record.key, b"no JSON")], partition=record.partition)
    behind.source.go_away()
    text = said(moved(behind, MoveMode.DISASTER))
    assert behind.target.committed("billing") == {COPY: 1000}
    assert "cannot tell whether there are share groups: 'untranslated' at offset" in text
    assert "what the last run left uncopied is unknown: 'run' at offset" in text
    assert "where groups have an offset none is skipped; which positions have none is not known in full" in text


@pytest.mark.parametrize("same_copy", [True, False])
def test_without_its_source_a_group_resumes_where_its_checkpoint_puts_it(migrated: Sides, same_copy: bool) -> None:
    """The offset syncs that it was made by are gone with the source."""
    synced(migrated, 0, 500)
    migrated.source.write("orders", [(b"k", b"new")] * 10)
    assert migrated.run().records == 10
    migrated.source.commit("billing", {("orders", 0): 500})
    assert sync_checkpoints(migrated.clusters(), at_once=True).checkpoints == 1
    if not same_copy:
        state = migrated.clusters().state
        memory = state.read(StateKey.CHECKPOINTS)
        assert memory is not None
        state.write(StateKey.CHECKPOINTS, memory | {"copies": {"a.orders": "of another copy"}})
    migrated.source.go_away()
    (position,) = moved(migrated, MoveMode.DISASTER).positions
    assert position.applied == (500 if same_copy else 0)
    assert position.read_again.most == 1011 - position.applied
