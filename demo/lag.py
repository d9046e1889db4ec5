"""The lag of each topic's copy, seen from outside: end offsets at the source, committed offsets at the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demo.topics import TOPICS, DemoTopic
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.state_reader import StateReader
from srm_common.wire.state.mm2 import parse_source_offset_key, parse_source_offset_value


@dataclass(frozen=True)
class TopicLag:
    """One topic, all partitions: offsets at the source's end, offsets copied, what is left."""

    topic: str
    end: int
    position: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


class LagReader:
    """Keeps its connections open, so that ``read`` takes a few milliseconds."""

    def __init__(self, flow: FlowSettings, topics: Sequence[DemoTopic] = TOPICS) -> None:
        self._topics = topics
        self._source = ClusterAdmin(flow.source, timeout_seconds=10)
        self._state = StateReader(flow.target)
        self._offsets_topic = names.offsets_topic(flow.name.source)
        self._partitions = [
            TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)
        ]

    def read(self) -> list[TopicLag]:
        """One row for each topic. Raises ClusterError when a cluster does not respond."""
        positions = self.positions()
        ends = self._source.offsets(self._partitions, LATEST)
        rows = []
        for topic in self._topics:
            end = position = 0
            for number in range(topic.partitions):
                found = ends[TopicPartition(topic.name, number)]
                if isinstance(found, Exception):
                    raise found
                end += found
                position += positions.get((topic.name, number), 0)
            rows.append(TopicLag(topic.name, end, min(position, end)))
        return rows

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next record at the source gets."""
        found = self._source.offsets([TopicPartition(topic, partition)], LATEST)[TopicPartition(topic, partition)]
        if isinstance(found, Exception):
            raise found
        return found

    def positions(self) -> dict[tuple[str, int], int]:
        """Next offset to copy, as far as it is committed now; nothing before the flow's first run."""
        found: dict[tuple[str, int], int] = {}
        if not self._state.partitions(self._offsets_topic):
            return found
        for record in self._state.last_records(self._offsets_topic).values():
            place = parse_source_offset_key(record.key) if record.key is not None else None
            last = parse_source_offset_value(record.value)
            if place is not None and last is not None:
                found[place[2], place[3]] = last + 1
        return found
