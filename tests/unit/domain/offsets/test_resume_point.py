from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.amount import NONE, Amount
from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.offset_map import OffsetMap
from srm_common.domain.offsets.resume_point import Log, ResumePoint, resume_point
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment
from tests.examples import examples
from tests.unit.domain.offsets.current_map import current_map

Draw = Callable[[Any], Any]


@dataclass
class Cluster:
    """A partition of the topic: record numbers, None for a marker."""

    log: list[int | None] = field(default_factory=list)
    own: set[int] = field(default_factory=set)  # offsets of records that were produced here

    def produce(self, number: int) -> None:
        self.own.add(len(self.log))
        self.log.append(number)


@dataclass
class Flow:
    """Copies one cluster's own records into the other's partition of the same name."""

    source: Cluster
    target: Cluster
    committed: list[Segment] = field(default_factory=list)
    position: int = 0
    end: int = 0  # of what it has copied, in the target's log
    ended: CopiedTo | None = None  # as the flow has committed it

    def copy(self, end: int, max_bytes: int, *, mapped: bool = True) -> None:
        """One chunk; what is not ``mapped`` was copied by MirrorMaker 2."""
        start = self.position
        runs = []
        for offset in range(start, end):
            number = self.source.log[offset]
            if number is not None and offset in self.source.own:
                runs.append(OffsetSpan(offset, 1, len(self.target.log), 1))
                self.target.log.append(number)
        self.position = end
        if runs:
            self.end = len(self.target.log)
        if not mapped:
            self.ended = None
        elif runs:
            segment = build_segment("t", 0, start, end, runs, max_bytes)
            self.committed.append(replace(segment, after=self.ended))
            self.ended = CopiedTo(segment.upstream_end, segment.downstream_end)
            self.target.log.append(None)

    def lose(self, first: int, end: int) -> None:
        """Segments, as when their records are lost."""
        del self.committed[first:end]

    def start_opposite(self, other: Flow) -> None:
        """Behind what the other direction copied into the source."""
        self.position = max(self.position, other.end)

    @property
    def map(self) -> OffsetMap:
        return OffsetMap(current_map(self.committed), self.position, ended=self.ended)


def after(cluster: Cluster, offset: int) -> list[int]:
    return [number for number in cluster.log[offset:] if number is not None]


def lose_some(flow: Flow, draw: Draw) -> None:
    """A hole at the start of the map, in the middle, at its end, or nothing is left of it."""
    first = draw(st.integers(0, len(flow.committed)))
    flow.lose(first, draw(st.integers(first, len(flow.committed))))


@pytest.mark.parametrize("holes", [False, True], ids=["mapped", "holes"])
@settings(max_examples=examples(600))
@given(data=st.data())
def test_moving_to_and_fro_under_one_name(holes: bool, data: st.DataObject) -> None:
    """The direction is turned again and again, at any moment; the group never skips a record that it could have read,
    and what it reads again is within the bound. With holes, some of it was copied by MirrorMaker 2, and segments are
    lost."""
    draw = data.draw
    here, there = Cluster(), Cluster()
    flows = {id(here): Flow(here, there), id(there): Flow(there, here)}
    committed: dict[int, int] = {}
    read: set[int] = set()
    numbers = iter(range(10_000))
    position = 0
    for turn in range(draw(st.integers(1, 4))):
        flow, other = flows[id(here)], flows[id(there)]
        if turn or not draw(st.booleans()):
            flow.start_opposite(other)
        for _ in range(draw(st.integers(0, 4))):
            for _ in range(draw(st.integers(0, 6))):
                if draw(st.integers(0, 9)) == 0 and flow.position < len(here.log):
                    here.log.append(None)
                else:
                    here.produce(next(numbers))
            if draw(st.booleans()):
                end = draw(st.integers(flow.position, max(flow.position, len(here.log))))
                flow.copy(end, draw(st.sampled_from([1 << 30, 12, 1])), mapped=not (holes and draw(st.booleans())))
            position = draw(st.integers(position, max(position, len(here.log))))
            read.update(number for number in here.log[:position] if number is not None)
        if draw(st.booleans()):  # nobody writes any more: everything is copied first
            flow.copy(max(flow.position, len(here.log)), 1 << 30)
        committed[id(here)] = position
        if holes:
            lose_some(flow, draw)
            lose_some(other, draw)

        point = resume_point(
            position,
            Log(0, len(there.log)),
            along=flow.map,
            back=other.map,
            own=committed.get(id(there)),
            at_end=position >= len(here.log),
        )
        left = after(there, point.offset)
        # Behind the first turn records that were never copied stay where they are; they are looked for at once only.
        lost_sight_of = {number for number in after(there, 0) if number not in read} - set(left)
        if turn <= 1:
            assert not lost_sight_of, f"{point} skips {lost_sight_of}"
        again = sum(number in read for number in left)
        assert point.read_again.least <= again <= point.read_again.known_most, f"{point} reads {again} again"
        here, there = there, here
        position = point.offset


@pytest.mark.parametrize("holes", [False, True], ids=["mapped", "holes"])
@settings(max_examples=examples(300))
@given(data=st.data())
def test_moving_to_and_fro_under_two_names(holes: bool, data: st.DataObject) -> None:
    """The copy has a topic of its own: groups go to it by the map, and back by the map."""
    draw = data.draw
    primary, copy = Cluster(), Cluster()
    flow = Flow(primary, copy)
    numbers = iter(range(10_000))
    read: set[int] = set()
    position, own = 0, None
    for _ in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(0, 8))):
            primary.produce(next(numbers))
        position = draw(st.integers(position, max(position, len(primary.log))))
        read.update(n for n in primary.log[:position] if n is not None)
        mapped = not (holes and draw(st.booleans()))
        flow.copy(
            draw(st.integers(flow.position, len(primary.log))), draw(st.sampled_from([1 << 30, 1])), mapped=mapped
        )
        if holes:
            lose_some(flow, draw)
        point = resume_point(position, Log(0, len(copy.log)), along=flow.map, own=own)
        assert {n for n in after(copy, 0) if n not in read} <= set(after(copy, point.offset))
        assert sum(n in read for n in after(copy, point.offset)) <= point.read_again.known_most
        own = draw(st.integers(point.offset, len(copy.log)))
        read.update(n for n in copy.log[point.offset : own] if n is not None)
        mapped = not (holes and draw(st.booleans()))
        flow.copy(draw(st.integers(flow.position, len(primary.log))), 1 << 30, mapped=mapped)
        if holes:
            lose_some(flow, draw)
        at_end = own >= len(copy.log)
        back = resume_point(own, Log(0, len(primary.log)), back=flow.map, own=position, at_end=at_end)
        assert {n for n in after(primary, 0) if n not in read} <= set(after(primary, back.offset))
        assert sum(n in read for n in after(primary, back.offset)) <= back.read_again.known_most
        position = back.offset


SEGMENT = Segment("t", 0, 100, 120, 1000, 1020, (OffsetSpan(100, 20, 1000, 20),))
MAP = OffsetMap((SEGMENT,), 120)
LOG = Log(1000, 1021)


@pytest.mark.parametrize(
    ("position", "own", "expected"),
    [
        (110, None, ResumePoint(1010)),
        (110, 1005, ResumePoint(1010)),
        (120, None, ResumePoint(1020)),
        (
            110,
            1015,
            ResumePoint(1015, NONE, "the group is ahead here: it has committed 1015, after its translated offset 1010"),
        ),
        (
            110,
            5000,
            ResumePoint(
                1010,
                NONE,
                "its committed offset 5000 here is after the end of the log, 1021, and does not count",
            ),
        ),
        (
            130,
            None,
            ResumePoint(
                1020,
                Amount.at_most(10),
                "the group is 10 offsets ahead of what is copied; it reads them again if they arrive",
            ),
        ),
        (90, None, ResumePoint(1000, NONE, "the copy starts at 100, after its position 90")),
    ],
)
def test_in_a_copy(position: int, own: int | None, expected: ResumePoint) -> None:
    assert resume_point(position, LOG, along=MAP, own=own) == expected


def test_what_retention_took_is_not_gone_back_to() -> None:
    assert resume_point(105, Log(1010, 1021), along=MAP).offset == 1010


def test_an_unknown_part_of_the_copy_is_read_from_its_start() -> None:
    before = resume_point(50, Log(400, 1021), along=MAP)
    assert (before.offset, before.read_again.most) == (400, 600)
    assert "where the offset map begins" in before.reason
    unknown = resume_point(50, Log(400, 1021), along=OffsetMap())
    assert (unknown.offset, unknown.read_again.most) == (400, 621 + 50)
    assert "has nothing" in unknown.reason
    empty = resume_point(0, Log(0, 0), along=OffsetMap())
    assert empty == ResumePoint(0, NONE, "nothing of this partition was copied yet")


def test_the_way_back_begins_with_what_the_cluster_took_along_when_it_died() -> None:
    """120 to 140 were never copied; the group had read 125 of them before."""
    back = OffsetMap((SEGMENT,), 120)
    log = Log(0, 140)
    assert resume_point(1020, log, back=back, own=None).offset == 120
    assert resume_point(1020, log, back=back, own=125).offset == 125
    assert resume_point(1020, replace(log, end=120), back=back, own=110).offset == 120
    assert resume_point(1007, log, back=back, own=90) == ResumePoint(107)


def test_a_log_that_lost_its_end_is_said() -> None:
    point = resume_point(1020, Log(0, 110), back=MAP)
    assert point.offset == 110
    assert "the log ends at 110" in point.reason


def test_records_of_others_between_copies_are_not_passed_over() -> None:
    """At the cluster gone back to, somebody wrote between two chunks of the flow that leads there."""
    along = OffsetMap(
        (
            Segment("t", 0, 1020, 1030, 120, 130, (OffsetSpan(1020, 10, 120, 10),)),
            Segment("t", 0, 1030, 1040, 135, 145, (OffsetSpan(1030, 10, 135, 10),)),
        ),
        1040,
    )
    point = resume_point(1040, Log(0, 146), along=along, back=MAP)
    assert (point.offset, point.read_again.most) == (130, 10)
    assert "from 130 on were not copied" in point.reason


def piece(upstream: int, downstream: int, records: int) -> Segment:
    return build_segment(
        "t", 0, upstream, upstream + records, [OffsetSpan(upstream, records, downstream, records)], 1 << 16
    )


@pytest.mark.parametrize(
    ("position", "log", "back", "offset", "read_again"),
    [
        # MirrorMaker 2 copied it all, or the map was lost.
        (300, Log(0, 1000), OffsetMap((), 1000), 0, 300),
        (300, Log(50, 1000), OffsetMap((), 1000), 50, 300),
        (0, Log(0, 1000), OffsetMap((), 1000), 0, 0),
        # It copied what lies before the map, behind it, and between.
        (300, Log(0, 1000), OffsetMap((piece(900, 900, 100),), 1000), 0, 300),
        (900, Log(0, 1000), OffsetMap((piece(900, 900, 100),), 1000), 900, 0),
        (950, Log(0, 1000), OffsetMap((piece(900, 900, 100),), 1000), 950, 0),
        (1200, Log(0, 2000), OffsetMap((piece(0, 0, 900),), 2000), 900, 300),
        (900, Log(0, 2000), OffsetMap((piece(0, 0, 900),), 2000), 900, 0),
        (600, Log(0, 1500), OffsetMap((piece(0, 0, 500), piece(1000, 1000, 500)), 1500), 500, 100),
        # Where the copy ended is known: nothing was copied behind the last segment.
        (901, Log(0, 910), OffsetMap((piece(0, 0, 900),), 910, ended=CopiedTo(900, 900)), 910, 0),
        # The flow began with its newest records.
        (0, Log(0, 1000), OffsetMap((piece(900, 0, 100),), 1000), 900, 0),
    ],
)
def test_the_way_back_where_the_map_does_not_reach(
    position: int, log: Log, back: OffsetMap, offset: int, read_again: int
) -> None:
    point = resume_point(position, log, back=back)
    assert (point.offset, point.read_again.known_most) == (offset, read_again)


@pytest.mark.parametrize("back", [OffsetMap((), 1000), OffsetMap((piece(0, 0, 900),), 1000)])
def test_a_group_at_the_end_of_the_copy_has_read_all_of_it(back: OffsetMap) -> None:
    assert resume_point(1000, Log(0, 1000), back=back, at_end=True) == ResumePoint(1000)
    assert resume_point(1000, Log(0, 1000), back=back).offset < 1000


def test_under_one_name_the_map_of_the_other_direction_does_not_hide_what_is_unread() -> None:
    back, along = OffsetMap((piece(900, 900, 100),), 1000), OffsetMap((piece(1000, 1000, 50),), 1050)
    point = resume_point(300, Log(0, 1050), along=along, back=back)
    assert point.offset == 0
    assert 300 <= point.read_again.known_most <= 1050
    assert "does not say what was copied of offsets 0 to 900" in point.reason
    assert resume_point(300, Log(0, 1050), along=along, back=back, own=300).offset == 300


@pytest.mark.parametrize(
    "along", [OffsetMap((), 100), OffsetMap((piece(0, 0, 30),), 100), OffsetMap((piece(90, 90, 10),), 100)]
)
def test_under_one_name_copies_without_a_map_are_not_skipped(along: OffsetMap) -> None:
    """The first hundred were copied here by MirrorMaker 2, those after them from here by the flow back."""
    point = resume_point(50, Log(0, 200), along=along, back=OffsetMap((piece(100, 100, 100),), 200))
    assert point.offset <= 50
    assert point.read_again.known_most >= 50 - point.offset
    assert "the offset map does not say" in point.reason


def test_what_mirror_maker_2_copied_behind_the_map_is_read_again_by_who_is_ahead_of_it() -> None:
    point = resume_point(1010, Log(0, 1000), along=OffsetMap((piece(0, 0, 900),), 1000))
    assert (point.offset, point.read_again.known_most) == (900, 110)
    ours = resume_point(1010, Log(0, 900), along=OffsetMap((piece(0, 0, 900),), 1000, ended=CopiedTo(900, 900)))
    assert (ours.offset, ours.read_again.known_most) == (900, 10)


@pytest.mark.parametrize(
    ("along", "known", "offset", "read_again"),
    [
        (OffsetMap((piece(900, 900, 100),), 1000), 300, 300, 600),
        (OffsetMap((piece(900, 900, 100),), 1000), 950, 900, 0),  # never beyond what the map says
        (OffsetMap((), 1000), 300, 300, 700),
        (OffsetMap((piece(0, 0, 100), piece(900, 900, 100)), 1000), 300, 300, 600),
        (OffsetMap((piece(0, 0, 100), piece(900, 900, 100)), 1000), 950, 900, 0),
        (OffsetMap((piece(0, 0, 1000),), 1000), 200, 300, 0),  # exact
        (OffsetMap((piece(900, 900, 100),), 1000), 0, 0, 900),
        (OffsetMap((piece(900, 900, 100),), 1000), 5000, 0, 900),  # of a longer copy
    ],
)
def test_an_earlier_translation_counts_where_the_map_has_a_floor(
    along: OffsetMap, known: int, offset: int, read_again: int
) -> None:
    point = resume_point(300, Log(0, 1000), along=along, known=known)
    assert (point.offset, point.read_again.known_most) == (offset, read_again)
