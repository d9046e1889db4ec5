"""Copies of which the target lost the end: no group is placed behind it, where it would skip what comes next."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import OnDataLoss, names
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.unit.usecases.fakes import Sides

_END = 12


@pytest.fixture
def cut(steady_sides: Sides) -> Sides:
    """Twenty records, each in a chunk of its own; of the copy, 6 are left. One group has moved since, one stands
    still, and one has read on at the target."""
    sides = steady_sides
    sides.set(sync_group_offsets=True, sync_group_offsets_interval_seconds=0.0)
    sides.source.create_topic("orders")
    sides.refresh()
    write(sides, 0, 20)
    positions = {"moves": 10, "stands": 18, "reads on": 3}
    for group, offset in positions.items():
        sides.source.commit(group, {("orders", 0): offset})
    round_of(sides)
    assert committed(sides, *positions) == {"moves": 19, "stands": 35, "reads on": 5}
    sides.target.commit("reads on", {("a.orders", 0): 37})
    sides.close()
    sides.target.move_leader("a.orders", keep=_END)
    sides.source.commit("moves", {("orders", 0): 15})
    return sides


def write(sides: Sides, first: int, count: int, *, at_once: bool = False) -> None:
    for number in range(first, first + count):
        sides.source.write("orders", [(b"k", b"%d" % number)])
        if not at_once:
            assert sides.run(f"r{number}").records == 1
    if at_once:
        sides.run("more")


def round_of(sides: Sides) -> None:
    assert sync_checkpoints(sides.clusters(), at_once=True).faults == ()


def committed(sides: Sides, *groups: str) -> dict[str, int]:
    return {group: sides.target.committed(group)["a.orders", 0] for group in groups}


def checkpoints(sides: Sides) -> dict[str, int]:
    found = newest_checkpoints(sides.clusters().target.reader, names.checkpoints_topic(sides.flow))
    return {one.group: one.downstream for one in found.by_place.values()}


def read_by(sides: Sides, group: str) -> list[int]:
    """What a group would read on the target."""
    at = committed(sides, group)[group]
    return [int(record.value or b"-1") for record in sides.target.records("a.orders") if record.offset >= at]


def test_while_nobody_has_decided_groups_wait_at_the_end(cut: Sides) -> None:
    assert cut.run("after").state is RunState.FAILED
    for _ in range(2):
        round_of(cut)
        assert checkpoints(cut) == {"moves": _END, "stands": _END, "reads on": 5}
        # A group whose place is before the end goes back to it: what it had read behind it is not there any more.
        assert committed(cut, "moves", "stands", "reads on") == {"moves": _END, "stands": _END, "reads on": 5}


@pytest.mark.parametrize("looked", [True, False], ids=["a round before it grows", "no round before it grows"])
def test_groups_skip_nothing_of_what_comes_behind_the_gap(cut: Sides, looked: bool) -> None:
    """Also if the copy has grown beyond their former places before anybody looks."""
    cut.set(on_target_loss=OnDataLoss.SKIP)
    if looked:
        cut.run("after")
        round_of(cut)
    write(cut, 20, 30, at_once=True)
    assert cut.target.log("a.orders").end > 37
    round_of(cut)
    assert {group: place for group, place in checkpoints(cut).items() if group != "reads on"} == {
        "moves": _END,
        "stands": _END,
    }
    for group in ("moves", "stands"):
        assert read_by(cut, group) == list(range(20, 50))


def test_groups_find_their_places_in_what_is_copied_again(cut: Sides) -> None:
    cut.set(on_target_loss=OnDataLoss.RESET)
    write(cut, 20, 30, at_once=True)
    round_of(cut)
    for group, position in (("moves", 15), ("stands", 18)):
        assert read_by(cut, group) == list(range(position, 50))


def test_a_copy_that_lost_nothing_keeps_what_groups_have_read_on_the_target(steady_sides: Sides) -> None:
    """Behind their checkpoints, up to the very end."""
    sides = steady_sides
    sides.set(sync_group_offsets=True, sync_group_offsets_interval_seconds=0.0)
    sides.source.create_topic("orders")
    sides.refresh()
    write(sides, 0, 10)
    sides.source.commit("g", {("orders", 0): 3})
    sides.target.commit("g", {("a.orders", 0): 20})
    assert sides.target.log("a.orders").end == 20
    for _ in range(2):
        report = sync_checkpoints(sides.clusters(), at_once=True)
        assert (report.groups_beyond, report.renewed) == ((("g", 1),), 0)
        assert committed(sides, "g") == {"g": 20}


def test_the_end_of_a_copy_is_asked_for_once_for_all_groups(cut: Sides) -> None:
    asked = []
    for groups in (2, 20):
        for number in range(groups):
            cut.source.commit(f"g{number}", {("orders", 0): 16 + groups % 3})
        cut.target.forget_requests()
        round_of(cut)
        asked.append(len(cut.target.asked("ListOffsets")))
    assert asked[1] <= asked[0]
