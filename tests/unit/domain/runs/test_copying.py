"""The sentence at the top of srm_common/domain/runs/copying.py, as properties."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.runs.copying import DEFAULT_RECORD_BYTES, CopyRange, cut_slots, estimated_bytes

TOPICS = ("orders", "payments", "clicks")

ranges = st.lists(
    st.builds(
        lambda topic, partition, start, distance: CopyRange(topic, f"a.{topic}", partition, start, start + distance),
        st.sampled_from(TOPICS),
        st.integers(0, 40),
        st.integers(0, 1 << 40),
        st.one_of(st.just(0), st.integers(0, 1 << 30)),
    ),
    max_size=60,
    unique_by=lambda one: (one.upstream_topic, one.partition),
)
sizes = st.dictionaries(st.sampled_from(TOPICS), st.floats(0.01, 1e6))


@given(ranges, st.integers(1, 12), sizes, st.integers(0, 1 << 30))
def test_every_range_with_something_to_read_is_in_exactly_one_slot(
    cut: list[CopyRange], tasks_max: int, record_bytes: dict[str, float], minimum: int
) -> None:
    slots = cut_slots(cut, tasks_max, record_bytes, minimum)
    shared_out = [copy_range for slot in slots for copy_range in slot]
    assert sorted(map(repr, shared_out)) == sorted(
        repr(copy_range) for copy_range in cut if copy_range.end > copy_range.start
    )
    assert len(slots) <= min(tasks_max, len(shared_out))
    assert all(slots)


@given(ranges, st.integers(1, 12), sizes, st.randoms(use_true_random=False))
def test_the_order_of_the_ranges_does_not_matter(
    cut: list[CopyRange], tasks_max: int, record_bytes: dict[str, float], random: Random
) -> None:
    shuffled = list(cut)
    random.shuffle(shuffled)
    assert cut_slots(cut, tasks_max, record_bytes) == cut_slots(shuffled, tasks_max, record_bytes)


@given(ranges, st.integers(1, 12), sizes)
def test_no_slot_exceeds_an_equal_share_by_more_than_one_range(
    cut: list[CopyRange], tasks_max: int, record_bytes: dict[str, float]
) -> None:
    slots = cut_slots(cut, tasks_max, record_bytes, minimum_slot_bytes=0)
    if not slots:
        return
    weights = [estimated_bytes(copy_range, record_bytes) for copy_range in cut]
    loads = [sum(estimated_bytes(copy_range, record_bytes) for copy_range in slot) for slot in slots]
    assert len(slots) == min(tasks_max, sum(weight > 0 for weight in weights))
    assert max(loads) <= sum(weights) / len(slots) + max(weights)
    assert max(loads) - min(loads) <= max(weights)


def test_bytes_count_not_offsets() -> None:
    few_large = CopyRange("large", "a.large", 0, 0, 100)
    many_small = [CopyRange("small", "a.small", p, 0, 1000) for p in range(4)]
    slots = cut_slots([few_large, *many_small], 2, {"large": 1e6, "small": 10.0})
    assert slots == ((few_large,), tuple(many_small))


def test_a_little_data_takes_one_slot() -> None:
    cut = [CopyRange("t", "a.t", p, 0, 10) for p in range(8)]
    assert len(cut_slots(cut, 4)) == 1
    assert len(cut_slots(cut, 4, minimum_slot_bytes=1)) == 4


def test_a_topic_nobody_measured_counts_with_the_default_size() -> None:
    assert estimated_bytes(CopyRange("t", "a.t", 0, 5, 15), {}) == round(10 * DEFAULT_RECORD_BYTES)
    assert estimated_bytes(CopyRange("t", "a.t", 0, 15, 15), {}) == 0
    assert estimated_bytes(CopyRange("t", "a.t", 0, 0, 1), {"t": 0.001}) == 1


def test_no_slots_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tasks\.max is 0"):
        cut_slots([], 0)


@pytest.mark.parametrize(("partitions", "tasks_max", "slots"), [(2000, 8, 1), (2001, 8, 2), (9000, 8, 5), (9000, 2, 2)])
def test_many_partitions_are_followed_by_several_slots_though_little_is_written(
    partitions: int, tasks_max: int, slots: int
) -> None:
    ranges = [CopyRange("t", "a.t", number, 7, 7) for number in range(partitions)]
    cut = cut_slots(ranges, tasks_max, recent_bytes={})
    assert len(cut) == slots
    assert max(map(len, cut)) - min(map(len, cut)) <= 1
    behind = [CopyRange("t", "a.t", number, 7, 8) for number in range(partitions)]
    assert len(cut_slots(behind, tasks_max)) == 1
