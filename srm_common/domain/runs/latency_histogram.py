"""Distribution of latencies: records counted in buckets that all histograms share, so that they can be added.

Buckets are a quarter of a power of two wide, from 8 ms on (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...), below that one
millisecond; the first also holds negative latencies, from producers whose clock is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from srm_common.errors import CorruptRecord

#: Of latencies up to a thousand years, more than a timestamp can tell.
_BUCKETS = 180


def bucket_of(latency_ms: int) -> int:
    """The number of the bucket that a latency falls into."""
    if latency_ms < 4:
        return max(latency_ms, 0)
    octave = latency_ms.bit_length() - 3
    return 4 * octave + (latency_ms >> octave)


def bucket_start(bucket: int) -> int:
    """The smallest latency of a bucket, in milliseconds; where the one before ends."""
    if bucket < 4:
        return bucket
    octave = bucket // 4 - 1
    return (bucket - 4 * octave) << octave


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """``counts``: records by bucket, sorted, without empty ones."""

    counts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Self:
        """Of records by bucket."""
        return cls(tuple(sorted((bucket, records) for bucket, records in counts.items() if records)))

    @classmethod
    def sum(cls, parts: Iterable[LatencyHistogram]) -> Self:
        """All records of all parts."""
        counts: dict[int, int] = {}
        for part in parts:
            for bucket, records in part.counts:
                counts[bucket] = counts.get(bucket, 0) + records
        return cls.of(counts)

    def __add__(self, other: LatencyHistogram) -> LatencyHistogram:
        return LatencyHistogram.sum((self, other))

    def without(self, part: LatencyHistogram) -> LatencyHistogram:
        """What is left when the records of ``part`` were not counted; no bucket has less than none."""
        counts = dict(self.counts)
        for bucket, records in part.counts:
            counts[bucket] = max(0, counts.get(bucket, 0) - records)
        return LatencyHistogram.of(counts)

    @property
    def records(self) -> int:
        return sum(records for _, records in self.counts)

    @property
    def sum_ms(self) -> float:
        """The sum of all latencies, each counted as the middle of its bucket."""
        return sum(_middle(bucket) * records for bucket, records in self.counts)

    def below(self, latency_ms: int) -> int:
        """Records whose latency was below ``latency_ms``, which is where a bucket starts."""
        return sum(records for bucket, records in self.counts if bucket_start(bucket) < latency_ms)

    def percentile(self, share: float) -> float | None:
        """The latency, in milliseconds, that ``share`` (above 0, up to 1) of the records did not exceed: the middle of
        its bucket, at most an eighth (or half a millisecond) away from it. None without records."""
        rank = math.ceil(share * self.records)
        for bucket, records in self.counts:
            rank -= records
            if rank <= 0:
                return _middle(bucket)
        return None

    def text(self) -> str:
        """For run records and the metrics store: the first bucket, then the records of that and of each that follows; a
        number below 0 means that so many buckets are empty. ``22,5000,70,-35,1``"""
        out: list[int] = []
        following = 0
        for bucket, records in self.counts:
            if not out:
                out.append(bucket)
            elif bucket > following:
                out.append(following - bucket)
            out.append(records)
            following = bucket + 1
        return ",".join(map(str, out))

    @classmethod
    def parse(cls, text: Any) -> Self:
        """What :meth:`text` made; of several with a semicolon between them, their sum.

        Raises:
            CorruptRecord: it is something else.
        """
        try:
            parts = [cls(tuple(_cells(part))) for part in text.split(";")]
        except (AttributeError, ValueError) as error:
            raise CorruptRecord(f"a histogram of latencies, as a run record has it, cannot be read: {error}") from error
        return parts[0] if len(parts) == 1 else cls.sum(parts)


def _cells(text: str) -> Iterator[tuple[int, int]]:
    """Parse the text form: records by bucket, sorted. Raises ValueError if it is invalid."""
    bucket, *numbers = map(int, text.split(",")) if text else (0,)
    if bucket < 0:
        raise ValueError("a bucket is below 0")
    for number in numbers:
        if number > 0:
            yield bucket, number
            bucket += 1
        else:
            bucket -= number
    if bucket > _BUCKETS:
        raise ValueError(f"there is no bucket {bucket}")


NO_LATENCIES = LatencyHistogram()


def _middle(bucket: int) -> float:
    return (bucket_start(bucket) + bucket_start(bucket + 1)) / 2
