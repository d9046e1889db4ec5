"""When the parts of a checkpoint round are due, and what a flow remembers of them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.offsets.checkpoint_memory import (
    CheckpointMemory,
    Part,
    checkpoint_period_seconds,
    group_sync_period_seconds,
)

FLOW = FlowSettings(
    FlowName("A", "B"),
    ClusterSettings.plaintext("A", "a:1"),
    ClusterSettings.plaintext("B", "b:1"),
    sync_group_offsets=True,
)  # both intervals 60 s, a run each 30 s
START = 1_700_000_000_000
EVERYTHING = frozenset(Part)
DONE = CheckpointMemory().done(EVERYTHING, START)


def at(seconds: float) -> int:
    return START + int(seconds * 1000)


def test_the_first_round_does_everything_and_later_ones_wait() -> None:
    assert CheckpointMemory().due(FLOW, START) == EVERYTHING
    assert DONE.due(FLOW, at(30)) == frozenset()
    assert DONE.next_seconds(FLOW, at(30)) == 30
    assert DONE.due(FLOW, at(59)) == {Part.CHECKPOINTS, Part.GROUPS}
    assert DONE.due(FLOW, at(30), at_once=True) == {Part.CHECKPOINTS, Part.GROUPS}
    assert DONE.due(FLOW, at(3599)) == EVERYTHING


def test_an_interval_up_to_the_period_of_runs_means_each_run() -> None:
    for seconds in (0.0, 10.0, 30.0):
        flow = replace(FLOW, emit_checkpoints_interval_seconds=seconds)
        assert DONE.due(flow, at(1)) == {Part.CHECKPOINTS}
    assert DONE.due(replace(FLOW, run_max_seconds=60.0), at(1)) == {Part.CHECKPOINTS, Part.GROUPS}


def test_switches_act_at_once_and_group_sync_needs_checkpoints() -> None:
    assert CheckpointMemory().due(replace(FLOW, sync_group_offsets=False), START) == {Part.CHECKPOINTS, Part.PRUNING}
    off = replace(FLOW, emit_checkpoints=False)
    assert DONE.due(off, at(61), at_once=True) == frozenset()
    assert group_sync_period_seconds(off) is None
    assert checkpoint_period_seconds(off) is None
    # Offsets are committed together with checkpoints, never between them.
    often = replace(FLOW, emit_checkpoints_interval_seconds=600.0)
    assert DONE.due(often, at(61)) == frozenset()


def test_a_clock_that_was_set_back_switches_nothing_off() -> None:
    assert DONE.due(FLOW, at(-86_400)) == EVERYTHING


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
        now = at(run * schedule)
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
