"""Cutting the ranges of a pass into slots of about equal work.

What always holds: every range that has something to read, or may have, is in exactly one slot, whole; there are never
more slots than ``tasks_max`` nor than such ranges; and the result depends on the set of ranges alone, not on their
order. A partition is never split, since its order must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heapreplace

from srm_common.domain.runs.copying import CopyRange
from srm_common.domain.topic_partition import TopicPartition

DEFAULT_RECORD_BYTES = 256.0
"""Bytes of a record of unknown size; only proportions between topics matter."""

MINIMUM_SLOT_BYTES = 4 << 20
"""Less than this is not worth a second slot: its connections and its transaction cost more than they save."""

_FOLLOWING = 16
"""Following a partition as it is written is so much less of a load on a slot than catching up with the same bytes."""


def estimated_bytes(copy_range: CopyRange, record_bytes: Mapping[str, float]) -> int:
    """Bytes the range probably holds: distance in offsets times the topic's observed record size.

    ``record_bytes`` maps an upstream topic to bytes a record, compressed as in the log. At least 1 for a
    range that is not empty, 0 for one that is.
    """
    distance = copy_range.end - copy_range.start
    if distance <= 0:
        return 0
    return max(1, round(distance * record_bytes.get(copy_range.upstream_topic, DEFAULT_RECORD_BYTES)))


def cut_slots(
    ranges: Iterable[CopyRange],
    tasks_max: int,
    record_bytes: Mapping[str, float] | None = None,
    minimum_slot_bytes: int = MINIMUM_SLOT_BYTES,
    recent_bytes: Mapping[TopicPartition, int] | None = None,
) -> tuple[tuple[CopyRange, ...], ...]:
    """Share the non-empty ranges out, largest first, each to the slot that has least so far.

    No slot ends up with more than 4/3 of the least possible maximum (Graham's bound for this rule). The index
    of a slot in the result is its number. Raises :class:`ValueError` when ``tasks_max`` is below 1.

    With ``recent_bytes`` (what each upstream partition brought in the last pass) the slots will continue with what is
    written behind their ranges: empty ranges are shared out, too.
    """
    if tasks_max < 1:
        raise ValueError(f"tasks.max is {tasks_max}; a flow needs at least one slot")
    sizes = record_bytes or {}
    weighed = [(estimated_bytes(one, sizes), one) for one in ranges]
    if recent_bytes is None:
        weighed = [(weight, one) for weight, one in weighed if weight > 0]
    else:
        weighed = [
            (max(1, weight + recent_bytes.get(TopicPartition(one.upstream_topic, one.partition), 0) // _FOLLOWING), one)
            for weight, one in weighed
        ]
    if not weighed:
        return ()
    total = sum(weight for weight, _ in weighed)
    worthwhile = max(1, -(-total // max(1, minimum_slot_bytes)))
    slots: list[list[CopyRange]] = [[] for _ in range(min(tasks_max, len(weighed), worthwhile))]
    loads = [(0, number) for number in range(len(slots))]
    heapify(loads)
    for weight, one in sorted(weighed, key=lambda pair: (-pair[0], _place(pair[1]))):
        load, number = loads[0]
        slots[number].append(one)
        heapreplace(loads, (load + weight, number))
    return tuple(tuple(sorted(slot, key=_place)) for slot in slots)


def _place(copy_range: CopyRange) -> tuple[str, int, int]:
    return (copy_range.upstream_topic, copy_range.partition, copy_range.start)
