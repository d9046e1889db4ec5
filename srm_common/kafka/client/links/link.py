"""One cluster as the copy engine sees it: its brokers, its features, and the offsets of its logs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.library import ApiVersionsRequest, ListOffsetsRequest
from srm_common.kafka.client.links.broker_link import BrokerLink
from srm_common.kafka.client.links.fetch_sizes import FetchSizes
from srm_common.kafka.client.links.retriable_fault import RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.messages import request_part

EARLIEST, LATEST = -2, -1
#: Versions of ListOffsets that have all that is asked for here; brokers from 2.2 on know one of them.
_LIST_OFFSETS_VERSIONS = {"min_version": 4, "max_version": 6}


class LogOffset(NamedTuple):
    """An answer of ListOffsets. A search by timestamp finds the first record at or after it; all values are -1 where
    there is none. Other answers have no timestamp (-1). ``leader_epoch`` is that of the record, and of the leader that
    answered where the end of the log was asked for (``Partition.fetchOffsetForTimestamp``)."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def list_offsets_request(places: Mapping[TopicPartition, int], committed: bool, version: int | None = None) -> Any:
    """``places``: partition -> -2 (earliest), -1 (latest) or a timestamp in ms; ``committed`` asks for the last stable
    offset, and for no record beyond it. ``version``: version 8 has local log starts (KIP-405); by default one that the
    broker knows."""
    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), at in places.items():
        by_topic[topic].append((partition, at))
    kind = ListOffsetsRequest.ListOffsetsTopic
    versions = _LIST_OFFSETS_VERSIONS if version is None else {"version": version}
    return ListOffsetsRequest(
        **versions,
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            request_part(
                kind,
                name=topic,
                partitions=[
                    request_part(kind.ListOffsetsPartition, partition_index=one, current_leader_epoch=-1, timestamp=at)
                    for one, at in ones
                ],
            )
            for topic, ones in by_topic.items()
        ],
    )


class ClusterLink(BrokerLink):
    """Connections to the brokers of one cluster; arguments as :class:`BrokerLink` has them."""

    def fetch_sizes(self) -> FetchSizes:
        """How much to ask the brokers for at a time, as links of the same pool have found out."""
        return FetchSizes() if self.pool is None else self.pool.fetch_sizes(self.settings)

    async def connect(self, node: int) -> None:
        """Wait until the connection to a node is made. Raises as :meth:`send`."""
        connection = await self.ready(node)
        if connection.initializing:
            await self.answer(connection.init_future)

    def takes(self, node: int, api: int, version: int) -> bool:
        """Whether a broker that is connected knows this version of a request."""
        connection = self.manager.connected(node)
        known = {} if connection is None else connection.broker_version_data.api_versions
        return api in known and int(known[api][1]) >= version

    def saw(self, place: TopicPartition, epoch: int) -> None:
        """A partition has had a leader of this epoch (-1: unknown). Brokers that name an older one are not believed
        from now on: :meth:`leader` knows none until another broker names one."""
        self.manager.cluster.saw(place, epoch)

    async def agree(self, *, unless_within_seconds: float = 0.0) -> None:
        """Ask several brokers for the leaders, not just any: where what a deposed leader still has must not be taken
        for what the cluster has. Those that do not respond soon are left out.

        Args:
            unless_within_seconds: not if links of the same pool have done so as recently as this.
        """
        cluster = self.manager.cluster
        if not (unless_within_seconds and cluster.agreed_since(time.monotonic() - unless_within_seconds)):
            await cluster.agree()

    async def finalized_feature(self, feature: str, timeout_seconds: float = 30.0) -> int:
        """The finalized level of a cluster feature (KIP-584), 0 when it has none.

        Raises:
            UnreachableCluster: no broker answered in time.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                answer = await self.ask_any(
                    lambda: ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
                )
                break
            except RetriableFault as error:
                if time.monotonic() > deadline:
                    raise UnreachableCluster(
                        f"cluster {self.alias} did not return its features within {timeout_seconds:g} s: {error}"
                    ) from error
                await self.loop.sleep(0.1)
                await self.refresh()
        for item in answer.finalized_features or ():
            if item.name == feature:
                return int(item.max_version_level)
        return 0

    async def offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        *,
        committed: bool = True,
        timeout_seconds: float = 30.0,
        request_ms: float | None = None,
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Offsets of many partitions at the same place: (found, faults with a sentence each); see :meth:`listed`."""
        offsets, faults = await self.listed(
            dict.fromkeys(partitions, at), committed=committed, timeout_seconds=timeout_seconds, request_ms=request_ms
        )
        return {place: one.offset for place, one in offsets.items()}, faults

    async def listed(
        self,
        places: Mapping[TopicPartition, int],
        *,
        committed: bool = True,
        timeout_seconds: float = 30.0,
        request_ms: float | None = None,
    ) -> tuple[dict[TopicPartition, LogOffset], dict[TopicPartition, str]]:
        """ListOffsets for many partitions, one request per leader: (found, faults with a sentence each).

        ``places``: partition -> EARLIEST, LATEST (the last stable offset when ``committed``) or a timestamp in ms.
        Requests with retriable errors are repeated until ``timeout_seconds`` are over. ``request_ms`` is how long one
        of them may go unanswered; None means the link's own limit.
        """
        offsets: dict[TopicPartition, LogOffset] = {}
        faults: dict[TopicPartition, str] = {}
        left = set(places)
        deadline = time.monotonic() + timeout_seconds
        while left:
            by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
            for one in left:
                node = self.leader(*one)
                if node is None:
                    faults[one] = str(self.leaderless(*one))
                else:
                    by_leader[node].append(one)
            futures = []
            for node, ones in by_leader.items():
                try:
                    request = list_offsets_request({partition: places[partition] for partition in ones}, committed)
                    futures.append((node, ones, await self.post(node, request, request_ms)))
                except RetriableFault as error:
                    faults.update({partition: str(error) for partition in ones})
            for node, ones, future in futures:
                try:
                    answer = await self.answer(future)
                except RetriableFault as error:
                    faults.update({partition: str(error) for partition in ones})
                    continue
                for topic in answer.topics:
                    for part in topic.partitions:
                        one = TopicPartition(topic.name, part.partition_index)
                        if part.error_code == codes.NONE:
                            if places[one] == LATEST:
                                self.manager.cluster.saw(one, part.leader_epoch, node)
                            offsets[one] = LogOffset(part.offset, part.timestamp, part.leader_epoch)
                            left.discard(one)
                            faults.pop(one, None)
                            continue
                        faults[one] = f"partition {one[0]}-{one[1]} of {self.alias}: {codes.name(part.error_code)}"
                        if not codes.retriable(part.error_code):
                            left.discard(one)
            if not left or time.monotonic() > deadline:
                break
            await self.loop.sleep(0.1)
            await self.refresh()
        return offsets, faults

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True, timeout_seconds: float = 30.0
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Blocking: last stable offsets (or high watermarks) of partitions, and faults."""
        return self._listed(list(partitions), LATEST, committed, timeout_seconds)

    def start_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_seconds: float = 30.0
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Blocking: log start offsets of partitions, and faults."""
        return self._listed(list(partitions), EARLIEST, True, timeout_seconds)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int, *, timeout_seconds: float = 30.0
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Blocking: the first offsets at or after a timestamp (-1 where there is none), and faults."""
        return self._listed(list(partitions), timestamp_ms, False, timeout_seconds)

    def _listed(
        self, partitions: list[TopicPartition], at: int, committed: bool, timeout_seconds: float
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        async def work() -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
            await self.open(timeout_seconds=min(timeout_seconds, 15.0))
            await self.track({topic for topic, _ in partitions})
            return await self.offsets(partitions, at, committed=committed, timeout_seconds=timeout_seconds)

        return self.run(work)


__all__ = ["ClusterLink", "LogOffset", "RetriableFault"]
