"""Current end offsets of a source, and the age of the first record that a flow has not copied."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.flow_lag import FlowLag, PartitionLag
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.kafka.log.log_facts import oldest_records
from srm_common.kafka.state.flow_positions import Standing
from srm_common.usecases.flows.open_cluster import OpenCluster

#: How long a broker may leave a request unanswered, and all of them leave partitions without a leader.
LISTING_SECONDS = 5.0
_SETTLING_SECONDS = 1.0


@dataclass(frozen=True)
class Reader:
    """A flow as the source sees it."""

    standing: Standing
    read_committed: bool


class SourceEnds(Closing):
    """Asks one source cluster, for all flows at once: one request a broker, one more where flows read it differently,
    and where something waits that did not before. Belongs to one thread. Raises as
    :class:`~srm_common.kafka.client.links.link.ClusterLink`.
    """

    def __init__(self, source: OpenCluster, *, patience_seconds: float = 10.0) -> None:
        self._patience = patience_seconds
        #: For the partitions of a leader that is gone.
        self._listing = min(LISTING_SECONDS, patience_seconds)
        self._link = source.link("lag", timeout_ms=int(patience_seconds * 1000))
        #: (partition, position) -> timestamp of the first record from there on; it is the same at the next look.
        self._oldest: dict[bool, dict[tuple[TopicPartition, int], int]] = {True: {}, False: {}}
        self._numbers: Mapping[str, frozenset[int]] = {}
        #: Topics that the last look did not find.
        self._gone: set[str] = set()

    def look(self, flows: Mapping[FlowName, Reader]) -> dict[FlowName, FlowLag]:
        """How far each of the flows is behind now. A topic that the source does not have any more is left out, a
        partition that it has got since is counted from its start."""
        return self._link.run(lambda: self._look(flows))

    def close(self) -> None:
        """Give the connections back to the cluster."""
        self._link.close()

    async def _look(self, flows: Mapping[FlowName, Reader]) -> dict[FlowName, FlowLag]:
        await self._link.open(timeout_seconds=self._patience)
        await self._learn({topic for flow in flows.values() for topic, _ in flow.standing.positions})
        lags: dict[FlowName, FlowLag] = {}
        for committed in (True, False):
            alike = {name: one for name, one in flows.items() if one.read_committed is committed}
            if alike:
                lags |= await self._look_alike(alike, committed)
        return lags

    async def _learn(self, topics: set[str]) -> None:
        known = await self._link.know(topics)
        gone = {topic for topic, numbers in known.items() if not numbers}
        if gone - self._gone:
            # A broker that has just started may not know yet of a topic.
            await self._link.loop.sleep(_SETTLING_SECONDS)
            known = await self._link.know(topics)
        self._gone = {topic for topic, numbers in known.items() if not numbers}
        self._numbers = known

    async def _look_alike(self, flows: Mapping[FlowName, Reader], committed: bool) -> dict[FlowName, FlowLag]:
        """Of flows that read the source alike."""
        positions = {name: self._there(one.standing) for name, one in flows.items()}
        places = {place for ones in positions.values() for place in ones}
        ends, faults = await self._link.offsets(places, LATEST, committed=committed, timeout_seconds=self._listing)
        if faults and not ends:
            raise UnreachableCluster(f"cluster {self._link.alias} does not respond: {next(iter(faults.values()))}")
        new = {place for ones in positions.values() for place, at in ones.items() if at is None and place in ends}
        starts, _ = await self._link.offsets(new, EARLIEST, timeout_seconds=self._listing)
        now_ms = time.time_ns() // 1_000_000
        found = {}
        kept: dict[tuple[TopicPartition, int], int] = {}
        for name, ones in positions.items():
            begun = {place: starts.get(place) if at is None else at for place, at in ones.items()}
            known = {place: at for place, at in begun.items() if at is not None and place in ends}
            waiting = {place: at for place, at in known.items() if at < ends[place]}
            oldest = await self._oldest_of(flows[name], waiting, now_ms, committed)
            kept |= {(place, at): oldest[place] for place, at in waiting.items() if place in oldest}
            hidden = self._hidden(flows[name].standing)
            found[name] = FlowLag(
                now_ms,
                {place: PartitionLag(at, ends[place], oldest.get(place)) for place, at in known.items()},
                next((faults[place] for place in ones if place in faults), None)
                or (str(self._link.leaderless(*min(hidden))) if hidden else None),
                frozenset(ones.keys() - known.keys()) | hidden,
            )
        self._oldest[committed] = kept
        return found

    def _hidden(self, standing: Standing) -> frozenset[TopicPartition]:
        """Partitions that may well be there, of topics that may not be seen."""
        hidden = self._link.manager.cluster.unauthorized_topics
        return frozenset(place for place in standing.positions if place[0] in hidden)

    def _there(self, standing: Standing) -> dict[TopicPartition, int | None]:
        """The positions in partitions that the source has now."""
        return {
            TopicPartition(topic, number): standing.positions.get(TopicPartition(topic, number))
            for topic in {topic for topic, _ in standing.positions}
            for number in self._numbers[topic]
        }

    async def _oldest_of(
        self, flow: Reader, waiting: Mapping[TopicPartition, int], now_ms: int, committed: bool
    ) -> dict[TopicPartition, int]:
        known = self._oldest[committed]
        found = {place: known[place, at] for place, at in waiting.items() if (place, at) in known}
        new = {place: at for place, at in waiting.items() if place not in found}
        return found | await oldest_records(
            self._link,
            new,
            flow.standing.newest_ms,
            now_ms,
            committed=committed,
            timeout_seconds=self._listing,
        )
