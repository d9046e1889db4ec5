"""Committed offsets of a cluster's consumer groups, queried every few seconds over persistent connections.

One ListGroups per broker, and one OffsetFetch per coordinator for every 500 groups (KIP-709, Kafka 3.0), or for
fewer where the answer would be too large; an older broker is queried group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, UnreachableCluster
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.library import ListGroupsRequest
from srm_common.kafka.client.links.group_coordinators import (
    GroupCoordinators,
    in_halves,
    in_parts,
    offset_fetch_request,
)
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.links.retriable_fault import AnswerTooLarge, OlderBroker
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupOffsets, GroupReader

_LIST_GROUPS_VERSION = 4
_GROUP_ID_NOT_FOUND = 69
#: Of classic and of new consumer groups; empty if a client commits without being a member.
_PROTOCOL_TYPES = ("consumer", "")


class GroupWatch(Closing):
    """A context manager; the first call of :meth:`committed` connects.

    Raises:
        UnreachableCluster, AccessDenied, UnsupportedBroker: from :meth:`committed`, as the cluster answers. The next
            call connects again.
    """

    def __init__(
        self, cluster: ClusterSettings, *, timeout_seconds: float = 10.0, pool: LinkPool | None = None
    ) -> None:
        self._cluster = cluster
        self._pool = pool
        self._timeout = timeout_seconds
        self._link: ClusterLink | None = None
        self._coordinators = GroupCoordinators()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
        self._coordinators.clear()

    def committed(self, chosen: Callable[[str], bool]) -> tuple[list[GroupOffsets], list[str]]:
        """What the groups that ``chosen`` accepts have committed, and a sentence for each request that failed.

        A group whose coordinator is moving is left out without a fault, and is back the next time.
        """
        if self._link is None:
            self._link = ClusterLink(self._cluster, request_timeout_ms=int(self._timeout * 1000), pool=self._pool)
        link = self._link
        try:
            return link.run(lambda: self._committed(link, chosen))
        except RetriableFault as error:
            self.close()
            raise UnreachableCluster(f"cluster '{self._cluster.alias}' did not list its groups: {error}") from error
        except ClusterError:
            self.close()
            raise

    async def _committed(
        self, link: ClusterLink, chosen: Callable[[str], bool]
    ) -> tuple[list[GroupOffsets], list[str]]:
        await link.open(timeout_seconds=self._timeout)
        names, faults = await self._names(link)
        groups = [name for name in names if chosen(name)]
        by_node, _ = await self._coordinators.find(link, groups)
        return await self._fetch(link, by_node, faults)

    async def _names(self, link: ClusterLink) -> tuple[list[str], list[str]]:
        names: set[str] = set()
        faults: list[str] = []
        answers = await link.ask_each(lambda: ListGroupsRequest(max_version=_LIST_GROUPS_VERSION, states_filter=[]))
        for node, answer in answers.items():
            if isinstance(answer, (RetriableFault, ClusterError)):
                faults.append(f"cluster '{link.alias}' could not list the groups of broker {node}: {answer}")
                continue
            if answer.error_code not in (codes.NONE, *codes.COORDINATOR_MOVES):
                problem = codes.name(answer.error_code)
                faults.append(f"cluster '{link.alias}' could not list the groups of broker {node}: {problem}")
            names |= {group.group_id for group in answer.groups if group.protocol_type in _PROTOCOL_TYPES}
        return sorted(names), faults

    async def _fetch(
        self, link: ClusterLink, by_node: Mapping[int, list[str]], faults: list[str]
    ) -> tuple[list[GroupOffsets], list[str]]:
        parts = [(node, part) for node, ones in by_node.items() for part in in_parts(ones)]
        offsets: list[GroupOffsets] = []
        by_group: list[str] = []
        while parts:
            answers = await link.send_each((node, offset_fetch_request(part)) for node, part in parts)
            again = []
            for (node, part), answer in zip(parts, answers, strict=True):
                if isinstance(answer, AnswerTooLarge) and len(part) > 1:
                    again += [(node, half) for half in in_halves(part)]
                elif isinstance(answer, OlderBroker):
                    by_group += part
                elif isinstance(answer, RetriableFault):
                    faults.append(f"cluster '{link.alias}' did not return the offsets of {len(part)} groups: {answer}")
                    self._coordinators.forget(part)
                else:
                    offsets += self._answered(link, answer, faults)
            parts = again
        if by_group:
            reader = GroupReader(self._cluster, timeout_seconds=self._timeout, pool=self._pool)
            more, unread = reader.offsets(by_group)
            offsets += more
            faults += map(str, unread)
        return offsets, faults

    def _answered(self, link: ClusterLink, answer: Any, faults: list[str]) -> Iterator[GroupOffsets]:
        for one in answer.groups:
            if one.error_code in codes.COORDINATOR_MOVES:
                self._coordinators.forget([one.group_id])
            elif one.error_code not in (codes.NONE, _GROUP_ID_NOT_FOUND):
                problem = codes.name(one.error_code)
                faults.append(f"cluster '{link.alias}' did not return the offsets of group {one.group_id}: {problem}")
            else:
                yield GroupOffsets(one.group_id, _offsets(one))


def _offsets(answer: Any) -> dict[TopicPartition, CommittedOffset]:
    return {
        # librdkafka ends metadata with a zero byte when it commits for other groups.
        TopicPartition(topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset, (partition.metadata or "").split("\0")[0]
        )
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code and partition.committed_offset >= 0
    }
