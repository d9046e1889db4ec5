from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.offsets.checkpoints import (
    Addition,
    Checkpoint,
    CheckpointMemory,
    Part,
    Untranslated,
    checkpoint_period_seconds,
    downstream_of,
    group_sync_period_seconds,
    is_contradicted,
    other_groups_from,
    still_holds,
    supersedes,
    untranslated_from,
    untranslated_record,
)
from srm_common.domain.offsets.segments import OffsetSpan, build_segment
from srm_common.domain.offsets.translation import NotReplicatedYet, TooOld, Translated, Translation, Unmapped, translate


def at(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", "a.t", 0, upstream, downstream)


@pytest.mark.parametrize(
    ("last", "new", "written"),
    [
        (None, at(5, 5), True),
        (at(5, 5), at(5, 5), False),
        (at(5, 5), at(6, 6), True),
        (at(5, 5), at(6, 5), False),
        (at(5, 5), at(5, 6), True),
        (at(250, 201), at(370, 176), False),  # the store's history was thinned out after a restart
        (at(250, 201), at(400, 376), True),
        (at(13, 6), at(12, 5), True),  # rewound at the source
        (at(13, 6), at(13, 5), False),
    ],
)
def test_checkpoints_never_go_backwards_unless_the_group_does(
    last: Checkpoint | None, new: Checkpoint, written: bool
) -> None:
    assert supersedes(new, last) is written


def test_what_a_checkpoint_may_carry() -> None:
    assert downstream_of(Translated(7, exact=True)) == 7
    assert downstream_of(Translated(7, exact=False)) == 7
    assert downstream_of(NotReplicatedYet(3, 9)) == 9
    assert "upstream offset 40" in str(downstream_of(TooOld(40, 2)))
    assert downstream_of(Unmapped("why")) == "why"


def test_a_checkpoint_holds_until_the_group_moves_or_its_part_of_the_map_changes() -> None:
    assert still_holds(at(5, 6), 5, None)
    assert not still_holds(at(5, 6), 4, None)
    assert not still_holds(at(5, 6), 6, None)
    assert still_holds(at(5, 6), 5, Addition(5, 6))
    assert not still_holds(at(5, 6), 5, Addition(4, 6))  # it stood ahead of the copy, or this was copied again
    assert not still_holds(at(5, 6), 5, Addition(5, 5))  # the target's log was cut


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=4)


@given(st.lists(RUNS, min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 90))
def test_one_that_holds_repeats_and_skips_nothing_of_the_copy(
    chunks: list[list[tuple[int, int, int]]], known: int, position: int
) -> None:
    segments, upstream, downstream = [], 0, 0
    for chunk in chunks:
        start, runs = upstream, []
        for gap, length, jump in chunk:
            runs.append(OffsetSpan(upstream + gap, length, downstream + jump, length))
            upstream, downstream = runs[-1].upstream_end, runs[-1].downstream_end
        segments.append(build_segment("t", 0, start, upstream, runs, 1000))
        downstream += 1  # the commit marker
    before = downstream_of(translate(segments[:known], position))
    if isinstance(before, int) and still_holds(at(position, before), position, Addition.of(segments[known:])):
        now = downstream_of(translate(segments, position))
        assert isinstance(now, int)
        assert before <= now
        copied = (run for segment in segments for run in segment.runs)
        assert not any(max(run.downstream, before) < min(run.downstream_end, now) for run in copied)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30))
def test_checkpoints_go_back_only_with_their_group(found: list[tuple[int, int]]) -> None:
    last: Checkpoint | None = None
    for upstream, downstream in found:
        new = at(upstream, downstream)
        if supersedes(new, last):
            assert last is None or new.downstream > last.downstream or new.upstream < last.upstream
            last = new


ROWS = [Untranslated("h", "t", 0, 5, "too old"), Untranslated("g", "t", 1, 7, "not copied")]


LAST = Checkpoint("g", "a.t", 0, 15, 29)


@pytest.mark.parametrize(
    ("translation", "added", "end", "contradicted"),
    [
        # Behind the end of the map, whatever was added.
        (Unmapped("?"), None, 28, True),
        (Unmapped("?"), None, 29, False),
        # The log was cut before it, and has grown beyond it.
        (Translated(12, exact=True), Addition(20, 12), 60, True),
        (Translated(11, exact=False, most=28), Addition(20, 12), 60, True),
        (NotReplicatedYet(3, 28), Addition(2, 12), 60, True),
        (TooOld(20, 12), Addition(20, 12), 60, True),
        # It may be right all the same.
        (Translated(29, exact=True), Addition(20, 12), 60, False),
        (Translated(11, exact=False, most=29), Addition(20, 12), 60, False),
        (Translated(11, exact=False), Addition(20, 12), 60, False),
        (Unmapped("?"), Addition(20, 12), 60, False),
        # What was added lies behind it.
        (Translated(12, exact=True), Addition(20, 29), 60, False),
        (Translated(12, exact=True), None, 60, False),
    ],
)
def test_a_checkpoint_behind_what_its_group_has_not_read_is_not_kept(
    translation: Translation, added: Addition | None, end: int, contradicted: bool
) -> None:
    assert is_contradicted(LAST, 15, translation, added, end) is contradicted
    # One of a group that was moved back is replaced anyway.
    assert not is_contradicted(LAST, 14, translation, added, end)


def test_a_record_comes_back_sorted() -> None:
    record = untranslated_record(ROWS)
    assert record == untranslated_record(ROWS[::-1])
    assert untranslated_from(json.loads(json.dumps(record))) == (ROWS[::-1], 0)


def test_a_record_fits_into_a_message() -> None:
    many = [Untranslated("g", "t", number, 0, "r") for number in range(10_007)]
    rows, left_out = untranslated_from(untranslated_record(many))
    assert (len(rows), left_out) == (10_000, 7)


@pytest.mark.parametrize("record", [None, [], {}, {"positions": [["g"]], "left_out": 0}, {"positions": []}])
def test_what_is_no_record_says_nothing(record: object) -> None:
    assert untranslated_from(record) == ([], 0)


def test_groups_of_other_kinds_are_kept_with_it() -> None:
    others = [("s", "share"), ("k", "streams")]
    assert other_groups_from(untranslated_record(ROWS, others)) == sorted(others)
    assert other_groups_from(untranslated_record(ROWS)) == []
    assert other_groups_from(None) == []


FLOW = FlowSettings(
    FlowName("A", "B"),
    ClusterSettings.plaintext("A", "a:1"),
    ClusterSettings.plaintext("B", "b:1"),
    sync_group_offsets=True,
)  # both intervals 60 s, a run each 30 s
START = 1_700_000_000_000
EVERYTHING = frozenset(Part)
DONE = CheckpointMemory().done(EVERYTHING, START)


def memory_at(seconds: float) -> int:
    return START + int(seconds * 1000)


def test_the_first_round_does_everything_and_later_ones_wait() -> None:
    assert CheckpointMemory().due(FLOW, START) == EVERYTHING
    assert DONE.due(FLOW, memory_at(30)) == frozenset()
    assert DONE.next_seconds(FLOW, memory_at(30)) == 30
    assert DONE.due(FLOW, memory_at(59)) == {Part.CHECKPOINTS, Part.GROUPS}
    assert DONE.due(FLOW, memory_at(30), at_once=True) == {Part.CHECKPOINTS, Part.GROUPS}
    assert DONE.due(FLOW, memory_at(3599)) == EVERYTHING


def test_an_interval_up_to_the_period_of_runs_means_each_run() -> None:
    for seconds in (0.0, 10.0, 30.0):
        flow = replace(FLOW, emit_checkpoints_interval_seconds=seconds)
        assert DONE.due(flow, memory_at(1)) == {Part.CHECKPOINTS}
    assert DONE.due(replace(FLOW, run_max_seconds=60.0), memory_at(1)) == {Part.CHECKPOINTS, Part.GROUPS}


def test_switches_act_at_once_and_group_sync_needs_checkpoints() -> None:
    assert CheckpointMemory().due(replace(FLOW, sync_group_offsets=False), START) == {Part.CHECKPOINTS, Part.PRUNING}
    off = replace(FLOW, emit_checkpoints=False)
    assert DONE.due(off, memory_at(61), at_once=True) == frozenset()
    assert group_sync_period_seconds(off) is None
    assert checkpoint_period_seconds(off) is None
    # Offsets are committed together with checkpoints, never between them.
    often = replace(FLOW, emit_checkpoints_interval_seconds=600.0)
    assert DONE.due(often, memory_at(61)) == frozenset()


def test_a_clock_that_was_set_back_switches_nothing_off() -> None:
    assert DONE.due(FLOW, memory_at(-86_400)) == EVERYTHING


@pytest.mark.parametrize(
    ("checkpoints", "groups", "schedule", "run", "period"),
    [
        (60, 60, 30, 0, 60),
        (120, 60, 30, 0, 120),  # the slower of the two, as in MirrorMaker 2
        (60, 120, 30, 0, 120),
        (0, 0, 30, 0, 30),
        (60, 60, 45, 0, 90),  # whole runs
        (60, 90, 30, 0, 120),  # whole rounds of checkpoints
        (60, 60, 30, 300, 300),  # a run that reads on for five minutes
    ],
)
def test_the_effective_period(checkpoints: float, groups: float, schedule: float, run: float, period: float) -> None:
    flow = replace(
        FLOW,
        emit_checkpoints_interval_seconds=checkpoints,
        sync_group_offsets_interval_seconds=groups,
        schedule_interval_seconds=schedule,
        run_max_seconds=run,
    )
    assert group_sync_period_seconds(flow) == period


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 120))
def test_the_effective_period_is_what_happens(checkpoints: int, groups: int, schedule: int) -> None:
    flow = replace(
        FLOW,
        emit_checkpoints_interval_seconds=float(checkpoints),
        sync_group_offsets_interval_seconds=float(groups),
        schedule_interval_seconds=float(schedule),
    )
    memory, synced = CheckpointMemory(), []
    for run in range(60):
        now = memory_at(run * schedule)
        due = memory.due(flow, now)
        memory = memory.done(due, now)
        if Part.GROUPS in due:
            synced.append(run * schedule)
    gaps = {after - before for before, after in itertools.pairwise(synced)}
    period = group_sync_period_seconds(flow)
    assert gaps <= {period}


def test_memory_survives_json_and_garbage_is_forgotten() -> None:
    memory = CheckpointMemory({0: 5}, {0: 3, 7: 1}, {"A.t": "id"}, {Part.GROUPS: 17})
    assert CheckpointMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory
    garbage: list[object] = [None, 7, [], {}, {"synced": []}, {**memory.to_json(), "last_ms": {"x": 1}}]
    garbage += [{**memory.to_json(), key: {"a": "b"}} for key in ("synced", "checked")]
    assert all(CheckpointMemory.from_json(one) == CheckpointMemory() for one in garbage)
