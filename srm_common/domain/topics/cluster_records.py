"""What was read of a flow's clusters before topics are decided on."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState

#: How long the claim of a flow that was stopped before it had looked around keeps others from a topic. Longer than a
#: claimer waits before it gives up itself, by more than clocks of two machines may differ.
CLAIM_MS = 90_000


@dataclass(frozen=True)
class Knowledge:
    """What was read of the clusters. The default is nothing: topics are then decided on by their names alone.

    ``records`` are by alias; a cluster that was not asked is absent. ``unreadable`` says why a cluster's could not be
    read. ``now_ms`` is the time of reading, in milliseconds since the epoch.
    """

    source_id: str = ""
    target_id: str = ""
    records: Mapping[str, TopicRecords] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    target_topics: Container[str] = frozenset()
    now_ms: int = 0

    def counts(self, record: TopicRecord) -> bool:
        """Whether the record's upstream data is, or soon may be, in its downstream topic."""
        return record.state is not TopicState.CLAIMED or self.now_ms - record.since_ms < CLAIM_MS
