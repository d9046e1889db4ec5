from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.amount import NONE, Amount
from srm_common.domain.offsets.resume_point import Log, OffsetMap, ResumePoint, resume_point
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment
from tests.examples import examples
from tests.unit.domain.offsets.current_map import current_map


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

    def copy(self, end: int, max_bytes: int) -> None:
        """One chunk."""
        start = self.position
        runs = []
        for offset in range(start, end):
            number = self.source.log[offset]
            if number is not None and offset in self.source.own:
                runs.append(OffsetSpan(offset, 1, len(self.target.log), 1))
                self.target.log.append(number)
        self.position = end
        if runs:
            self.committed.append(build_segment("t", 0, start, end, runs, max_bytes))
            self.target.log.append(None)

    def start_opposite(self, other: Flow) -> None:
        """Behind what the other direction copied into the source."""
        ends = [segment.downstream_end for segment in other.committed]
        self.position = max([self.position, *ends])

    @property
    def map(self) -> OffsetMap:
        return OffsetMap(current_map(self.committed), self.position)


def after(cluster: Cluster, offset: int) -> list[int]:
    return [number for number in cluster.log[offset:] if number is not None]


@settings(max_examples=examples(600))
@given(st.data())
def test_moving_to_and_fro_under_one_name(data: st.DataObject) -> None:
    """The direction is turned again and again, at any moment; the group never skips a record that it could have read,
    and what it reads again is within the bound."""
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
                flow.copy(end, draw(st.sampled_from([1 << 30, 12, 1])))
            position = draw(st.integers(position, max(position, len(here.log))))
            read.update(number for number in here.log[:position] if number is not None)
        if draw(st.booleans()):  # nobody writes any more: everything is copied first
            flow.copy(max(flow.position, len(here.log)), 1 << 30)
        committed[id(here)] = position

        point = resume_point(
            position, Log(0, len(there.log)), along=flow.map, back=other.map, own=committed.get(id(there))
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


@settings(max_examples=examples(300))
@given(st.data())
def test_moving_to_and_fro_under_two_names(data: st.DataObject) -> None:
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
        flow.copy(draw(st.integers(flow.position, len(primary.log))), draw(st.sampled_from([1 << 30, 1])))
        point = resume_point(position, Log(0, len(copy.log)), along=flow.map, own=own)
        assert {n for n in after(copy, 0) if n not in read} <= set(after(copy, point.offset))
        assert sum(n in read for n in after(copy, point.offset)) <= point.read_again.known_most
        own = draw(st.integers(point.offset, len(copy.log)))
        read.update(n for n in copy.log[point.offset : own] if n is not None)
        flow.copy(draw(st.integers(flow.position, len(primary.log))), 1 << 30)
        back = resume_point(own, Log(0, len(primary.log)), back=flow.map, own=position)
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
    assert (before.offset, before.read_again.most) == (400, 0)
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
