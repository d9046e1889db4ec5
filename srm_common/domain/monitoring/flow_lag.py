"""The lag of a flow at one moment, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from srm_common.domain.amount import Amount
from srm_common.domain.topic_partition import TopicPartition


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

    def behind_ms(self, now_ms: int) -> float | None:
        """As :meth:`LagSum.behind_ms`, of this one alone."""
        if self.end <= self.position:
            return 0.0
        return None if self.oldest_ms is None else float(max(0, now_ms - self.oldest_ms))


@dataclass(frozen=True, slots=True)
class LagSum:
    """Of several partitions: their offsets that are not copied yet, and the oldest record among these."""

    records: Amount
    oldest_ms: int | None = None

    def behind_ms(self, now_ms: int) -> float | None:
        """How old the oldest record is that is not copied, 0 when all are; None where no log tells, or one cannot be
        asked, as it may hold an older one."""
        if self.records.most == 0:
            return 0.0
        if self.oldest_ms is None or self.records.unknown:
            return None
        return float(max(0, now_ms - self.oldest_ms))

    @classmethod
    def of(cls, partitions: Iterable[PartitionLag | None]) -> Self:
        """None: a partition of unknown lag."""
        records = parts = unknown = 0
        oldest_ms = None
        # One loop, since there may be tens of thousands.
        for partition in partitions:
            parts += 1
            if partition is None:
                unknown += 1
                continue
            records += partition.records
            if partition.oldest_ms is not None and (oldest_ms is None or partition.oldest_ms < oldest_ms):
                oldest_ms = partition.oldest_ms
        return cls(Amount(records, records, parts, unknown), oldest_ms)


@dataclass(frozen=True)
class FlowLag:
    """What the clusters returned at ``taken_ms`` (epoch milliseconds) of the ``partitions`` that could be queried, and
    which could not (``unknown``): they have no leader, did not respond, or may not be seen. ``fault`` says why, or why
    newer figures are not known."""

    taken_ms: int
    partitions: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)
    fault: str | None = None
    unknown: frozenset[TopicPartition] = frozenset()

    @cached_property
    def whole(self) -> LagSum:
        return LagSum.of([*self.partitions.values(), *(None for _ in self.unknown)])

    @cached_property
    def topics(self) -> Mapping[str, LagSum]:
        """By upstream topic."""
        found: dict[str, list[PartitionLag | None]] = {}
        for (topic, _), one in self.partitions.items():
            found.setdefault(topic, []).append(one)
        for topic, _ in self.unknown:
            found.setdefault(topic, []).append(None)
        return {topic: LagSum.of(ones) for topic, ones in found.items()}

    def knows(self, partition: TopicPartition) -> bool:
        """Whether it covers the partition, even if its lag is unknown."""
        return partition in self.partitions or partition in self.unknown

    def with_fault(self, fault: str | None) -> Self:
        return self if fault == self.fault else replace(self, fault=fault)
