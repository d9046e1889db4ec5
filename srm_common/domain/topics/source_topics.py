"""What a flow remembers of its source topics between runs, beyond the committed offsets.

Three things: the topic's id, to notice that it was created again; where its partitions without progress start, as it
was decided when the topic was first seen; and *pins*, starting points that no commit carries yet. A pin says "start at
``offset`` as long as the committed offset is still ``instead_of``, and the copy ends where it did", so it holds over a
crash before the first commit, is spent by that commit, and is harmless afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Self

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.topic_id import is_another_topic
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord

#: How many ids of former topics are remembered.
_FORMER = 3
#: In place of a start position: it was ``latest``, and the offset that this meant is lost with the flow's state.
LOST = "lost"


@dataclass(frozen=True, slots=True)
class Pin:
    """A starting point. ``instead_of`` is the committed offset it overrides, None where nothing was committed.

    ``copied_to`` is the end of the copy by that commit, None where it does not say. The offset alone is not enough: in
    a topic that was created again, or is read again from its start, a commit may come to the very same one.
    """

    offset: int
    instead_of: int | None
    copied_to: int | None = None

    def holds(self, committed: int | None, copied_to: CopiedTo | None) -> bool:
        """Whether nothing was committed since; ``copied_to`` None: it is not known."""
        moved = copied_to is not None and self.copied_to not in (None, copied_to.downstream_end)
        return self.instead_of == committed and not moved


@dataclass(frozen=True, slots=True)
class ChosenStart:
    """Where a topic starts: ``where`` as in the configuration, or :data:`LOST`, ``why`` the setting that said so,
    ``since_ms`` when that was decided (epoch milliseconds). It is about the first ``partitions`` partitions, those that
    the topic had then; what was added later starts at its beginning."""

    where: str
    why: str
    since_ms: int
    partitions: int


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """One remembered topic; ``pins`` is by partition. ``former``: the ids of those that had its name before, the last
    few."""

    topic_id: str | None = None
    pins: Mapping[int, Pin] = field(default_factory=dict)
    start: ChosenStart | None = None
    former: tuple[str, ...] = ()

    def renewed(self, topic_id: str) -> SourceTopic:
        """With this id."""
        if self.topic_id in (None, topic_id):
            return replace(self, topic_id=topic_id)
        return replace(self, topic_id=topic_id, former=(*self.former, self.topic_id)[-_FORMER:])


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """All of a flow's, by upstream topic name. A value: changes return another."""

    topics: Mapping[str, SourceTopic] = field(default_factory=dict)

    def topic_id(self, topic: str) -> str | None:
        known = self.topics.get(topic)
        return None if known is None else known.topic_id

    def is_former(self, topic: str, topic_id: str | None) -> bool:
        """Whether a topic of this name had this id before: brokers that lag behind list it for a while."""
        former = self.topics.get(topic, SourceTopic()).former
        return topic_id in former

    def is_other(self, topic: str, topic_id: str | None) -> bool:
        """Whether a topic that is listed is not the one that was copied, but was created later."""
        return is_another_topic(self.topic_id(topic), topic_id) and not self.is_former(topic, topic_id)

    def start(self, topic: str) -> ChosenStart | None:
        known = self.topics.get(topic)
        return None if known is None else known.start

    def start_lost(self, topic: str) -> bool:
        """Whether the topic started at ``latest``, and it is not known any more where that was."""
        start = self.start(topic)
        return start is not None and start.where == LOST

    @property
    def pinned(self) -> frozenset[TopicPartition]:
        """The partitions that have a pin."""
        return frozenset(TopicPartition(topic, number) for topic, known in self.topics.items() for number in known.pins)

    def places(self, topics: Iterable[str], others: Iterable[TopicPartition]) -> set[TopicPartition]:
        """The partitions of these topics that the flow knows of, by pins, by where the topics start, or as ``others``;
        the topics need not have them any more."""
        wanted = set(topics)
        starts = {topic: start for topic in wanted if (start := self.start(topic)) is not None}
        chosen = {TopicPartition(topic, n) for topic, start in starts.items() for n in range(start.partitions)}
        return chosen | {place for place in {*others, *self.pinned} if place.topic in wanted}

    def pin(self, topic: str, partition: int) -> Pin | None:
        known = self.topics.get(topic)
        return None if known is None else known.pins.get(partition)

    def position(self, topic: str, partition: int, committed: int | None, copied_to: CopiedTo | None) -> int | None:
        """Where to read next: the pin if it is still valid, otherwise the committed offset; None if neither is known.

        Args:
            copied_to: where the copy ends by that commit, as far as it says.
        """
        pin = self.pin(topic, partition)
        return pin.offset if pin is not None and pin.holds(committed, copied_to) else committed

    def with_ids(self, ids: Mapping[str, str | None]) -> SourceTopics:
        """Remember these ids; where there is no topic, or none has an id, what is known stays."""
        topics = dict(self.topics)
        for topic, topic_id in ids.items():
            if topic_id:
                topics[topic] = topics.get(topic, SourceTopic()).renewed(topic_id)
        return replace(self, topics=topics)

    def with_starts(self, starts: Mapping[str, ChosenStart]) -> SourceTopics:
        """Remember where topics start, in place of earlier choices."""
        topics = dict(self.topics)
        for topic, start in starts.items():
            topics[topic] = replace(topics.get(topic, SourceTopic()), start=start)
        return replace(self, topics=topics)

    def with_pins(self, pins: Mapping[TopicPartition, Pin]) -> SourceTopics:
        """Set pins by (topic, partition), in place of earlier ones."""
        topics = dict(self.topics)
        for (topic, partition), pin in pins.items():
            known = topics.get(topic, SourceTopic())
            topics[topic] = replace(known, pins={**known.pins, partition: pin})
        return replace(self, topics=topics)

    def without_spent_pins(
        self, committed: Mapping[TopicPartition, int], copied_to: Mapping[TopicPartition, CopiedTo]
    ) -> SourceTopics:
        """Forget the pins of partitions for which something was committed since.

        Args:
            copied_to: where the copies end by these commits, as far as they say.
        """
        topics = {}
        for topic, known in self.topics.items():
            pins = {
                number: pin
                for number, pin in known.pins.items()
                if pin.holds(committed.get(place := TopicPartition(topic, number)), copied_to.get(place))
            }
            topics[topic] = known if len(pins) == len(known.pins) else replace(known, pins=pins)
        return replace(self, topics=topics)

    def without_pins(self, places: set[TopicPartition]) -> SourceTopics:
        """Forget the pins of these (topic, partition)."""
        topics = {}
        for topic, known in self.topics.items():
            pins = {p: pin for p, pin in known.pins.items() if (topic, p) not in places}
            topics[topic] = known if len(pins) == len(known.pins) else replace(known, pins=pins)
        return replace(self, topics=topics)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a state record; the inverse of :meth:`from_json`."""
        return {
            topic: {
                "id": known.topic_id,
                "pins": {str(p): _pin_json(pin) for p, pin in sorted(known.pins.items())},
                **({} if known.start is None else {"start": astuple(known.start)}),
                **({"former": known.former} if known.former else {}),
            }
            for topic, known in sorted(self.topics.items())
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any] | None) -> Self:
        """Read a state record; None is a flow that remembers nothing yet.

        Raises:
            CorruptRecord: it is another one. To forget the pins in it could lose what an edit of offsets asked for.
        """
        try:
            return cls(
                {
                    topic: SourceTopic(
                        topic_id=known.get("id"),
                        pins={int(p): Pin(*pin) for p, pin in known.get("pins", {}).items()},
                        start=ChosenStart(*known["start"]) if known.get("start") else None,
                        former=tuple(known.get("former", ())),
                    )
                    for topic, known in (record or {}).items()
                }
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise CorruptRecord(
                f"what the flow remembers of its source (key 'topics' of its state) cannot be read: {error!r}; "
                "write a tombstone with that key to forget it, also offsets that were edited and not yet copied from"
            ) from error


def _pin_json(pin: Pin) -> list[int | None]:
    """Without the end of the copy where it is not known, as earlier versions wrote it."""
    return [pin.offset, pin.instead_of, *([] if pin.copied_to is None else [pin.copied_to])]
