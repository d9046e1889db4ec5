"""Progress of the flows into one cluster, read incrementally: their committed offsets, and the records of their
runs."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from srm_common.domain.flow import FlowName, names
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord, SrmError, UnreachableCluster
from srm_common.kafka.client.links.link import LATEST, ClusterLink
from srm_common.kafka.log.committed_log import newest_from, read_committed
from srm_common.kafka.state.flow_state import flow_value
from srm_common.kafka.state.keyed_topic import place_of
from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.state.mm2 import SOURCE_CONNECTOR, parse_source_offset_key, parse_source_offset_value
from srm_common.wire.state.plain_records import Newest

_RUN = names.StateKey.RUN.encode()


@dataclass(frozen=True)
class Standing:
    """One flow. ``positions`` has the next offset to copy of every partition that it copies, None where it has none;
    ``newest_ms`` the timestamps of the newest records that its last run copied."""

    positions: Mapping[TopicPartition, int | None]
    newest_ms: Mapping[TopicPartition, int]


@dataclass
class _Flow:
    """What was read about a flow so far. ``read``: topic -> partition -> end of the last read; ``ids``: topic -> its id
    then, None where the cluster gives it none."""

    read: dict[str, dict[int, int]] = field(default_factory=dict)
    ids: dict[str, uuid.UUID | None] = field(default_factory=dict)
    #: For each upstream partition, when the newest commit was written, and its position, None for "no position".
    committed: dict[TopicPartition, tuple[int, int | None]] = field(default_factory=dict)
    run: RunRecord | None = None
    run_ms: int = 0
    fault: CorruptRecord | None = None


class FlowPositions:
    """Reads what was written since the last read, over ``link`` to the flows' target; nothing is read twice."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._flows: dict[str, _Flow] = {}
        self._places: dict[bytes, TopicPartition | None] = {}

    async def look(
        self, flows: Collection[FlowName], patience_seconds: float
    ) -> dict[FlowName, Standing | SrmError | None]:
        """By flow; None for a flow that never ran, an error where nothing newer can be read.

        Raises:
            UnreachableCluster, AccessDenied: the cluster does not respond, or refuses the login.
        """
        topics = {name(flow.source): flow.source for flow in flows for name in _TOPICS}
        known = await self._link.know(topics)
        places = [TopicPartition(topic, number) for topic, numbers in known.items() for number in numbers]
        ends, faults = await self._link.offsets(places, LATEST, timeout_seconds=patience_seconds)
        if faults and not ends:
            raise UnreachableCluster(f"cluster {self._link.alias} does not respond: {next(iter(faults.values()))}")
        failed: dict[str, SrmError] = {topics[place[0]]: UnreachableCluster(fault) for place, fault in faults.items()}
        by_topic: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for (topic, number), end in ends.items():
            by_topic[topic][number] = end
        for topic, source in topics.items():
            if source in failed:
                continue
            if topic in self._link.manager.cluster.unauthorized_topics:
                failed[source] = self._link.leaderless(topic, 0)
                continue
            try:
                await self._read_on(topic, source, by_topic[topic], patience_seconds)
            except SrmError as error:
                failed[source] = error
        return {flow: failed.get(flow.source) or self._standing_of(flow.source) for flow in flows}

    def _standing_of(self, source: str) -> Standing | SrmError | None:
        flow = self._flows[source]
        if flow.fault is not None:
            return flow.fault
        return None if flow.run is None else _standing(flow, flow.run)

    async def _read_on(self, topic: str, source: str, ends: Mapping[int, int], patience_seconds: float) -> None:
        flow = self._flows.setdefault(source, _Flow())
        before = flow.read.get(topic, {})
        topic_id = self._link.manager.cluster.topic_id(topic)
        shorter = any(end < before.get(number, 0) for number, end in ends.items()) or (before and not ends)
        if shorter or (before and topic_id != flow.ids.get(topic)):
            # It was re-created: nothing that was read from it is valid any more.
            before = {}
            if topic == names.offsets_topic(source):
                flow.committed.clear()
            else:
                flow.run, flow.run_ms, flow.fault = None, 0, None
        news = {number: end for number, end in ends.items() if end > before.get(number, 0)}
        take = self._take_commits if topic == names.offsets_topic(source) else self._take_state
        if news:
            await read_committed(
                self._link,
                topic,
                news,
                lambda _, batch, first: take(source, _records(batch, first), batch.header.max_timestamp),
                patience_seconds=patience_seconds,
                starts=before,
            )
        flow.read[topic], flow.ids[topic] = dict(ends), topic_id

    def _take_commits(self, source: str, found: Newest, written_ms: int) -> None:
        flow = self._flows[source]
        for key, (_, value) in found.items():
            place = self._place(key, source)
            if place is None:
                continue
            try:
                last = parse_source_offset_value(value)
            except CorruptRecord:
                continue  # a run reports it, and does not copy the partition
            flow.committed[place] = written_ms, None if last is None else last + 1

    def _take_state(self, source: str, newest: Newest, _written_ms: int) -> None:
        flow, found = self._flows[source], newest.get(_RUN)
        if found is None:
            return
        offset, value = found
        flow.run, flow.run_ms, flow.fault = None, 0, None
        if value is None:
            return
        try:
            place = place_of(_RUN.decode(), offset, names.flow_state_topic(source), self._link.alias)
            document, flow.run_ms = flow_value(value, place)
            flow.run = RunRecord.from_json(document)
        except CorruptRecord as error:
            flow.fault = error

    def _place(self, key: bytes, source: str) -> TopicPartition | None:
        if key not in self._places:
            parsed = parse_source_offset_key(key)
            ours = parsed is not None and parsed[:2] == (SOURCE_CONNECTOR, source)
            self._places[key] = TopicPartition(*parsed[2:]) if parsed is not None and ours else None
        return self._places[key]


_TOPICS = (names.flow_state_topic, names.offsets_topic)


def _records(batch: SourceBatch, first: int) -> Newest:
    found: Newest = {}
    newest_from(first, batch, found)
    return found


def _standing(flow: _Flow, run: RunRecord) -> Standing:
    """A commit that was written after the run's record is newer. The record also has partitions without a commit, and
    positions that advanced without one."""
    positions: dict[TopicPartition, int | None] = {}
    newest = {}
    for partition in run.partitions:
        place = TopicPartition(partition.upstream_topic, partition.partition)
        written_ms, committed = flow.committed.get(place, (0, None))
        positions[place] = committed if written_ms > flow.run_ms else partition.position
        if partition.last_record_timestamp_ms is not None:
            newest[place] = partition.last_record_timestamp_ms
    return Standing(positions, newest)
