"""Idle groups move forward, others not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.groups.group_sync import TargetGroup, sync_group
from srm_common.domain.offsets.checkpoints import Checkpoint


def checkpoint(partition: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", "a.t", partition, 0, downstream)


def test_a_group_that_does_not_exist_gets_every_position() -> None:
    wanted = [checkpoint(1, 7), checkpoint(0, 0)]
    assert sync_group("g", TargetGroup(), wanted).commit == (wanted[1], wanted[0])


@pytest.mark.parametrize("state", ["stable", "preparing-rebalance", "assigning", "reconciling", "unknown"])
def test_a_group_in_use_is_left_alone(state: str) -> None:
    found = sync_group("g", TargetGroup(state), [checkpoint(0, 5)])
    assert (found.commit, found.in_use) == ((), state)


@given(
    st.sampled_from(["empty", "dead"]),
    st.dictionaries(st.integers(0, 5), st.integers(0, 20)),
    st.dictionaries(st.integers(0, 5), st.integers(0, 20)),
)
def test_an_idle_group_never_goes_backwards(state: str, committed: dict[int, int], wanted: dict[int, int]) -> None:
    target = TargetGroup(state, {("a.t", partition): offset for partition, offset in committed.items()})
    found = sync_group("g", target, [checkpoint(*one) for one in wanted.items()])
    after = {**committed, **{one.partition: one.downstream for one in found.commit}}
    assert after == {
        partition: max(wanted.get(partition, 0), committed.get(partition, 0)) for partition in {*committed, *wanted}
    }
    assert found.there + found.beyond + len(found.commit) == len(wanted)
    assert found.beyond == sum(committed.get(partition, -1) > offset for partition, offset in wanted.items())
