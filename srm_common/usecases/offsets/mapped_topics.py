"""Of which topics the offset map tells: of those that are there now, or of former ones of the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from srm_common.domain.flow import FlowName
from srm_common.domain.offsets.segments import generation_of
from srm_common.domain.topic_id import is_another_topic, url_safe
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.errors import CorruptRecord
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.usecases.flows.open_cluster import OpenCluster


@dataclass(frozen=True, slots=True)
class Outdated:
    """``reason``: why the map of a partition is not of the topics that are there now, in one sentence.

    ``copied``: whether what was copied may be in the copy all the same. ``end``: where the copy ends if nothing of a
    new topic at the source is copied yet, and nothing has to be decided before it is; else None.
    """

    reason: str
    copied: bool = False
    end: int | None = None


class MappedTopics:
    """The topics that a flow's map is about, held against those of today.

    Args:
        target: where the copies are.
        records: the flow's own, by upstream topic.
        log: the flow's map.
    """

    def __init__(
        self, target: OpenCluster, flow: FlowName, records: Mapping[str, TopicRecord], log: SegmentLog
    ) -> None:
        self._target = target
        self._flow = flow
        self._records = records
        self._log = log
        self._ids: dict[str, str | None] = {}

    def look(self, topics: Iterable[str]) -> None:
        """Ask for the ids of the copies of these upstream topics, once each.

        Raises:
            UnreachableCluster, AccessDenied: as the target answers.
        """
        copies = {self._records[topic].downstream_topic for topic in topics if topic in self._records}
        if wanted := copies - self._ids.keys():
            with self._target.link("control") as link:
                self._ids |= link.run(lambda: topic_ids(link, wanted, self._target.request_seconds))

    def copy_ids(self) -> dict[str, str]:
        """The ids of the copies that were looked at and have one, in Kafka's spelling."""
        return {copy: topic_id for copy, topic_id in self._ids.items() if topic_id}

    def replaced(self) -> dict[str, str]:
        """The ids of copies that others created in place of those that are recorded."""
        here = {one.downstream_topic: one for one in self._records.values() if one.downstream_topic in self._ids}
        return {copy: self._ids[copy] or "" for copy, record in here.items() if self._is_replaced(record)}

    def outdated(self, topic: str, partition: int) -> Outdated | None:
        """Why the map of a partition must not be used, None where it may. Only copies that were looked at are held
        against what is recorded of them."""
        record = self._records.get(topic)
        if record is None:
            return None
        unknown = "its positions cannot be distinguished from those of the former topic"
        if self._is_replaced(record):
            why = f"{record.downstream_topic} on {self._target.alias} was deleted and created again by others"
            settled = record.reason or f"{why}, and the next refresh says what follows"
            return Outdated(f"{settled}: {unknown}", copied=True)
        now, former = generation_of(record.upstream_topic_id), set(map(generation_of, record.previous_upstream_ids))
        undecided = record.state is TopicState.RECREATED
        if not undecided and not former - {now}:
            return None
        try:
            newest = self._log.newest(topic, partition)
        except CorruptRecord as error:
            return Outdated(f"it is unknown of which topic named {topic} it is: {error}")
        if newest is not None and newest.generation not in former | {0, now}:
            return None  # the copy is ahead of what is recorded
        if undecided:
            why = record.reason or f"{topic} was created again on {self._flow.source}, and on.data.loss is undecided"
            return Outdated(f"{why}: {unknown}")
        if newest is not None and newest.generation in former - {now}:
            return Outdated(f"nothing of the new topic {topic} is copied yet", end=newest.downstream_end)
        return None

    def _is_replaced(self, record: TopicRecord) -> bool:
        """Brokers that lag behind list a former copy for a while."""
        found = self._ids.get(record.downstream_topic)
        former = {url_safe(one) for one in record.previous_downstream_ids}
        return found not in former and is_another_topic(url_safe(record.downstream_topic_id), found)
