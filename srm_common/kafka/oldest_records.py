"""When the first record beyond an offset was written, by searches of the log by timestamp: no record is fetched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from srm_common.kafka.link import ClusterLink, Partition

#: An age is told to within this share of it, and need not be told better than to a second.
_TOLERANCE = 0.02
_FINEST_MS = 1000
#: Ages from a second to decades are told apart by no more questions than that.
_MOST_QUESTIONS = 14
_LONGEST_MS = 40 * 366 * 86_400_000


@dataclass(slots=True)
class _Search:
    """Records before ``low_ms`` are copied, ``high_ms`` is later than the one looked for. ``found_ms``: the timestamp
    of the oldest record that was seen beyond the offset."""

    offset: int
    low_ms: int
    high_ms: int
    asked_ms: int
    found_ms: int | None = None
    done: bool = False

    def learn(self, offset: int, timestamp_ms: int, now_ms: int) -> None:
        """The first record at or after ``asked_ms`` is this one; -1 where there is none."""
        if offset < 0:
            self.high_ms = self.asked_ms
        elif offset < self.offset:
            self.low_ms = max(self.asked_ms, timestamp_ms) + 1
        else:
            self.high_ms = self.asked_ms
            self.found_ms = timestamp_ms if self.found_ms is None else min(self.found_ms, timestamp_ms)
            self.done = offset == self.offset
        youngest, oldest = max(1, now_ms - self.high_ms), max(1, now_ms - self.low_ms)
        if oldest - youngest <= max(_FINEST_MS, _TOLERANCE * youngest):
            self.done = True
        # Halved by the age's magnitude: a backlog may be of seconds or of months.
        self.asked_ms = now_ms - round(math.sqrt(max(youngest, _FINEST_MS / 4) * oldest))
        self.asked_ms = min(max(self.asked_ms, self.low_ms), max(self.low_ms, self.high_ms - 1))


async def oldest_records(
    link: ClusterLink,
    positions: Mapping[Partition, int],
    newest_ms: Mapping[Partition, int],
    now_ms: int,
    *,
    committed: bool,
    timeout_seconds: float,
) -> dict[Partition, int]:
    """The timestamps of the first records at or beyond ``positions``; partitions whose logs do not tell are left out.

    Exact where the record after the newest copied one is the first, as after a run; else to within 2 % of the age.
    Where producers set timestamps out of order, it is that of a record near the offset.

    Args:
        newest_ms: timestamps of records that were copied, where they are known.
        now_ms: epoch milliseconds.
    """
    searches = {
        place: _Search(offset, newest_ms.get(place, now_ms - _LONGEST_MS), now_ms, newest_ms.get(place, -1) + 1)
        for place, offset in positions.items()
    }
    for _ in range(_MOST_QUESTIONS):
        open_ones = {place: one.asked_ms for place, one in searches.items() if not one.done}
        if not open_ones:
            break
        answers, _ = await link.listed(open_ones, committed=committed, timeout_seconds=timeout_seconds)
        for place in open_ones:
            if place in answers:
                searches[place].learn(*answers[place], now_ms)
            else:
                searches[place].done = True
    return {place: one.found_ms for place, one in searches.items() if one.found_ms is not None and one.found_ms >= 0}
