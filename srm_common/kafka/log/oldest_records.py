"""The timestamp of the first record after an offset, by searches of the log by timestamp: no record is fetched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.link import ClusterLink

#: Ages are determined to within this share, and to no better than a second.
_TOLERANCE = 0.02
_FINEST_MS = 1000
#: Ages from a second to decades are distinguished with no more requests than that.
MOST_QUESTIONS = 18
_LONGEST_MS = 40 * 366 * 86_400_000


@dataclass(slots=True)
class TimestampSearch:
    """For the first record at or beyond ``offset``, by questions for the first record at or after ``asked_ms``. Records
    with timestamps before ``low_ms`` are known to lie before the offset, so that an answer to ``low_ms`` beyond it is
    the one. ``high_ms``: the record looked for is not later, or is the first after it.
    """

    offset: int
    now_ms: int
    low_ms: int
    high_ms: int
    asked_ms: int
    found_ms: int | None = None
    done: bool = False

    @classmethod
    def beyond(cls, offset: int, newest_ms: int | None, now_ms: int) -> Self:
        """``newest_ms``: the timestamp of a record before the offset, where one is known."""
        low_ms = now_ms - _LONGEST_MS if newest_ms is None else newest_ms + 1
        return cls(offset, now_ms, low_ms, max(low_ms, now_ms) + 1, 0 if newest_ms is None else low_ms)

    def learn(self, offset: int, timestamp_ms: int) -> None:
        """The first record at or after ``asked_ms`` is this one; -1 where there is none."""
        if offset >= self.offset:
            self.found_ms = timestamp_ms
            self.done = offset == self.offset or self.asked_ms <= self.low_ms
            self.high_ms = self.asked_ms
        elif offset >= 0:
            self.low_ms = max(self.asked_ms, timestamp_ms) + 1
        else:
            self.high_ms = self.asked_ms
        if self.high_ms <= self.low_ms:
            self.done = True
        self.asked_ms = self._next()

    def _next(self) -> int:
        youngest, oldest = max(1, self.now_ms - self.high_ms), max(1, self.now_ms - self.low_ms)
        if oldest - youngest <= max(_FINEST_MS, _TOLERANCE * youngest):
            return self.low_ms
        # Halved by magnitude: a backlog may be of seconds or of months.
        halfway = self.now_ms - round(math.sqrt(max(youngest, _FINEST_MS / 4) * oldest))
        return min(max(halfway, self.low_ms), self.high_ms - 1)

    @property
    def oldest_ms(self) -> int | None:
        """What was found; of a search that was given up the earliest that it can be. None where the log has nothing
        beyond the offset, or no timestamps."""
        if not self.done:
            return self.low_ms if self.found_ms is None else min(self.low_ms, self.found_ms)
        return None if self.found_ms is None or self.found_ms < 0 else self.found_ms


async def oldest_records(
    link: ClusterLink,
    positions: Mapping[TopicPartition, int],
    newest_ms: Mapping[TopicPartition, int],
    now_ms: int,
    *,
    committed: bool,
    timeout_seconds: float,
) -> dict[TopicPartition, int]:
    """The timestamps of the first records at or beyond ``positions``; partitions whose logs do not tell are left out.

    Exact where the record after the newest copied one is the first, as after a run; else to within 2 % of the age.
    Where producers set timestamps out of order, it is that of a record near the offset.

    Args:
        newest_ms: timestamps of records that were copied, where they are known.
        now_ms: epoch milliseconds.
    """
    searches = {
        place: TimestampSearch.beyond(offset, newest_ms.get(place), now_ms) for place, offset in positions.items()
    }
    for _ in range(MOST_QUESTIONS):
        open_ones = {place: one.asked_ms for place, one in searches.items() if not one.done}
        if not open_ones:
            break
        answers, _faults = await link.listed(open_ones, committed=committed, timeout_seconds=timeout_seconds)
        for place in open_ones:
            if place in answers:
                searches[place].learn(*answers[place])
            else:
                searches[place].done = True
    return {place: one.oldest_ms for place, one in searches.items() if one.oldest_ms is not None}
