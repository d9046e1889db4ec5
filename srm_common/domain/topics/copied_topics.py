"""The topics that a flow copies and the names of their copies, by the records on its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState

#: What was made again at the source is for the run to judge, which knows what was copied.
_COPIED_IN_RUNS = (TopicState.REPLICATING, TopicState.RECREATED)


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """One topic to copy. ``partitions`` is how many there are on both sides; ``max_message_bytes`` is the copy's.
    ``heartbeats``: it has heartbeats, which no transform is for.

    The ids tell a topic from a later one of the same name; empty if they were not requested.
    """

    upstream: str
    downstream: str
    partitions: int
    upstream_topic_id: str = ""
    downstream_topic_id: str = ""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    heartbeats: bool = False


@dataclass(frozen=True)
class CopiedTopics:
    """The topics of ``flow``, by the records of its target. ``records`` are those of the flow, by upstream topic."""

    flow: str
    all_records: TopicRecords
    records: Mapping[str, TopicRecord] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", self.all_records.of_flow(self.flow))

    @property
    def going_on(self) -> frozenset[str]:
        """Upstream topics that nothing keeps from being copied."""
        return frozenset(topic for topic, one in self.records.items() if one.state is TopicState.REPLICATING)

    @property
    def names(self) -> dict[str, str]:
        """Upstream topic -> its copy, of all whose records are in the copy; only claimed ones are not."""
        return {
            topic: one.downstream_topic for topic, one in self.records.items() if one.state is not TopicState.CLAIMED
        }

    @property
    def ids(self) -> dict[str, str]:
        """Copy -> its id, where it is recorded."""
        return {
            one.downstream_topic: one.downstream_topic_id for one in self.records.values() if one.downstream_topic_id
        }

    def name_of(self, topic: str, by_policy: str) -> str:
        """The copy of ``topic``: a name belongs to the copy that was made under it, whatever the policy would call it
        now; without a record what the policy calls it."""
        return self.records[topic].downstream_topic if topic in self.records else by_policy

    def copied_in_runs(self, topic: str, copy: str) -> bool:
        """Whether a run copies ``topic`` into ``copy``, as far as records tell."""
        found = self.records.get(topic)
        return found is not None and found.state in _COPIED_IN_RUNS and found.downstream_topic == copy

    def gone(self, topic: str) -> str | None:
        """Why ``topic`` has no copy any more, in one sentence; None where it has one or never had."""
        found = self.records.get(topic)
        if found is None or found.state is not TopicState.TARGET_DELETED:
            return None
        return f"its copy {found.downstream_topic} was deleted on the target"

    def other_writers(self, copy: str) -> tuple[str, ...]:
        """Other flows that copy into ``copy`` now."""
        return tuple(
            sorted(
                {
                    one.flow
                    for one in self.all_records.feeding(copy)
                    if one.state is TopicState.REPLICATING and one.downstream_topic == copy
                }
                - {self.flow}
            )
        )

    def feeders(self, copy: str) -> tuple[str, ...]:
        """All flows whose records are in ``copy``, or may be soon, this one among them."""
        return tuple(sorted({one.flow for one in self.all_records.feeding(copy)}))
