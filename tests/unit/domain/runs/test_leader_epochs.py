"""Which leader epoch an offset belongs to, against a plain table of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.runs.leader_epochs import UNKNOWN_EPOCH, LeaderEpochs


def test_nothing_is_known_before_something_was_read() -> None:
    assert LeaderEpochs().at(0) == UNKNOWN_EPOCH
    assert LeaderEpochs(100, 7).at(99) == 7
    assert LeaderEpochs(100, 7).at(98) == UNKNOWN_EPOCH
    assert LeaderEpochs(100, 7).at(100) == UNKNOWN_EPOCH


def test_a_hole_between_two_epochs_belongs_to_neither() -> None:
    epochs = LeaderEpochs()
    epochs.add(0, 10, 1)
    epochs.add(20, 30, 3)
    assert [epochs.at(offset) for offset in (9, 10, 19, 20, 29, 30)] == [1, -1, -1, 3, 3, -1]


def test_what_is_read_again_counts_as_it_is_now() -> None:
    epochs = LeaderEpochs()
    epochs.add(0, 10, 1)
    epochs.add(10, 20, 1)
    epochs.add(20, 30, 2)
    epochs.add(15, 40, 4)
    assert [epochs.at(offset) for offset in (14, 15, 25, 39, 40)] == [1, 4, 4, 4, -1]


def test_batches_of_old_formats_have_no_epoch() -> None:
    epochs = LeaderEpochs(5, 2)
    epochs.add(5, 8, UNKNOWN_EPOCH)
    assert (epochs.at(4), epochs.at(5), epochs.at(7)) == (2, UNKNOWN_EPOCH, UNKNOWN_EPOCH)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2)), max_size=12), st.integers(0, 60))
def test_any_log_is_known_offset_by_offset(steps: list[tuple[int, int, int]], forgotten: int) -> None:
    epochs, table = LeaderEpochs(), dict[int, int]()
    at, epoch, batches = 0, 0, []
    for hole, size, grown in steps:
        first = at + hole
        epoch += grown
        if table and not grown:
            table.update(dict.fromkeys(range(at, first), epoch))
        at = first + size
        table.update(dict.fromkeys(range(first, at), epoch))
        batches.append((first, at, epoch))
    for first, after, one in batches:
        epochs.add(first, after, one)
    assert [epochs.at(offset) for offset in range(at + 2)] == [table.get(offset, -1) for offset in range(at + 2)]
    epochs.forget_before(forgotten)
    kept = range(forgotten, at + 2)
    assert [epochs.at(offset) for offset in kept] == [table.get(offset, -1) for offset in kept]
    for first, after, one in batches[len(batches) // 2 :]:
        epochs.add(first, after, one)
    assert [epochs.at(offset) for offset in kept] == [table.get(offset, -1) for offset in kept]
