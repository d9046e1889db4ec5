"""How far a flow is behind its source at one moment, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """``position`` is the next offset to copy, everything before it is committed on the target; ``end`` where the
    source can be read to. ``oldest_ms`` is the timestamp (epoch milliseconds) of the first record in between, to within
    2 % of its age; None where nothing waits, or the log does not tell."""

    position: int
    end: int
    oldest_ms: int | None = None

    @property
    def records(self) -> int:
        """Offsets that are not copied yet. What compaction and transactions left out counts, too."""
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class LagSum:
    """Of several partitions: their offsets that are not copied yet, and the oldest record among these."""

    records: int = 0
    oldest_ms: int | None = None

    def behind_ms(self, now_ms: int) -> float | None:
        """How old the oldest record is that is not copied, 0 when all are; None where no log tells."""
        if not self.records:
            return 0.0
        return None if self.oldest_ms is None else float(max(0, now_ms - self.oldest_ms))

    @classmethod
    def of(cls, partitions: Iterable[PartitionLag]) -> Self:
        records = 0
        oldest_ms = None
        for one in partitions:
            records += one.records
            if one.oldest_ms is not None and (oldest_ms is None or one.oldest_ms < oldest_ms):
                oldest_ms = one.oldest_ms
        return cls(records, oldest_ms)


@dataclass(frozen=True)
class FlowLag:
    """Of the partitions that could be asked about at ``taken_ms`` (epoch milliseconds). ``fault`` says why others, or
    newer figures, are not known."""

    taken_ms: int
    partitions: Mapping[Partition, PartitionLag] = field(default_factory=dict)
    fault: str | None = None

    @cached_property
    def whole(self) -> LagSum:
        return LagSum.of(self.partitions.values())

    @cached_property
    def topics(self) -> Mapping[str, LagSum]:
        """By upstream topic."""
        found: dict[str, list[PartitionLag]] = {}
        for (topic, _), one in self.partitions.items():
            found.setdefault(topic, []).append(one)
        return {topic: LagSum.of(ones) for topic, ones in found.items()}

    def with_fault(self, fault: str | None) -> Self:
        return self if fault == self.fault else type(self)(self.taken_ms, self.partitions, fault)
