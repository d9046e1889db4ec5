"""Which ranges may be read when some have made a chunk fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.runs.copying import CopyRange
from srm_common.errors import CorruptBatch, PartitionError
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.suspects import Suspects


def ranges(count: int) -> list[RangeState]:
    return [RangeState(CopyRange("t", "a.t", number, 0, 10)) for number in range(count)]


def held(states: list[RangeState]) -> list[bool]:
    return [state.held for state in states]


def test_those_that_failed_wait_until_they_are_tried_alone() -> None:
    states = ranges(3)
    suspects = Suspects(states)
    suspects.accuse([states[1]])
    assert held(states) == [False, True, False]
    assert suspects.due() == [states[1]]
    suspects.try_them([states[1]])
    assert held(states) == [True, False, True]
    assert suspects.due() == []
    suspects.acquit()
    assert held(states) == [False, False, False]


def test_a_trial_that_fails_costs_only_who_was_at_fault() -> None:
    states = ranges(3)
    suspects = Suspects(states)
    suspects.accuse(states[:2])
    suspects.try_them(suspects.due())
    states[0].fault(PartitionError("no leader"), 60.0)
    suspects.convict()
    suspects.accuse([states[0]])
    assert held(states) == [True, True, False]
    assert suspects.due() == [states[1]]


def test_who_was_given_up_is_not_tried_again() -> None:
    states = ranges(2)
    suspects = Suspects(states)
    suspects.accuse(states)
    states[0].give_up(PartitionError("no leader"))
    assert suspects.due() == [states[1]]


def test_what_comes_before_an_error_is_still_copied() -> None:
    states = ranges(2)
    suspects = Suspects(states)
    suspects.accuse(states)
    states[0].stop_at(5, CorruptBatch("refused at offset 5"))
    assert suspects.due() == states


@given(st.lists(st.tuples(st.sampled_from(["accuse", "try", "acquit", "convict"]), st.sets(st.integers(0, 4)))))
def test_a_chunk_carries_suspects_or_others(steps: list[tuple[str, set[int]]]) -> None:
    states = ranges(5)
    suspects = Suspects(states)
    accused: set[int] = set()
    for step, numbers in steps:
        if step == "accuse" and not suspects.on_trial:
            suspects.accuse([states[number] for number in sorted(numbers)])
            accused |= numbers
        elif step == "try" and suspects.due():
            suspects.try_them(suspects.due())
        elif step == "acquit" and suspects.on_trial:
            suspects.acquit()
            accused = set()
        elif step == "convict" and suspects.on_trial:
            suspects.convict()
        readable = {number for number, state in enumerate(states) if not state.held}
        assert readable == (accused if suspects.on_trial else set(range(5)) - accused)
