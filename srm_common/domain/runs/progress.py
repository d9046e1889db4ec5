"""How far a run is, for whoever watches it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """One upstream topic, all partitions together. Counts are of this run; ``left`` is in offsets.

    While a pass runs, ``done`` follows the target's committed ends; records and bytes come with the pass's
    result.
    """

    topic: str
    done: int
    left: int
    records: int
    bytes: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A run at one moment. ``copying``: a pass is at work; otherwise the run looks for something new."""

    flow: str
    passes: int
    copying: bool
    elapsed_seconds: float
    topics: tuple[TopicProgress, ...]

    @property
    def done(self) -> int:
        """Offsets copied so far."""
        return sum(topic.done for topic in self.topics)

    @property
    def left(self) -> int:
        """Offsets known at the source and not copied yet."""
        return sum(topic.left for topic in self.topics)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)

    @property
    def bytes(self) -> int:
        return sum(topic.bytes for topic in self.topics)


def by_topic(parts: Iterable[TopicProgress]) -> tuple[TopicProgress, ...]:
    """Add up entries of the same topic; sorted by name."""
    sums: dict[str, TopicProgress] = {}
    for part in parts:
        known = sums.get(part.topic)
        sums[part.topic] = (
            part
            if known is None
            else TopicProgress(
                part.topic,
                known.done + part.done,
                known.left + part.left,
                known.records + part.records,
                known.bytes + part.bytes,
                known.failed + part.failed,
            )
        )
    return tuple(sums[topic] for topic in sorted(sums))
