"""Commits offsets for groups without active members.

Also lists groups that read topics but are not consumer groups: share groups and streams groups, over kafka-python,
since confluent-kafka lists consumer groups only. Their offsets are not translated: a share group (KIP-932) has a start
offset for each partition and delivery states of single records after it, which neither client can request, and brokers
refuse access to a streams group (KIP-1071) to clients that do not speak its protocol.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.errors import ClusterError
from srm_common.kafka.client.faults import cluster_error, kafka_error, transient
from srm_common.kafka.client.library import ListGroupsRequest
from srm_common.kafka.client.librdkafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_groups import LinkGroups
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.groups.group_offsets import (
    PAUSE_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    Group,
    GroupFault,
)

#: Requests in flight at a time, one per group; each waits for the replicas of the offsets topic.
_GROUPS_AT_ONCE = 200
#: What a broker answers when the group has got a member since it was described.
_IN_USE = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.NON_EMPTY_GROUP}
#: What it answers when a group of another kind has the name, such as a share group or a streams group.
_OTHER_KIND = {KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.GROUP_ID_NOT_FOUND}
_FORBIDDEN = {**dict.fromkeys(_IN_USE, "in use"), **dict.fromkeys(_OTHER_KIND, "of another kind")}


@dataclass(frozen=True, slots=True)
class Committed:
    """The result for one group: ``positions`` is how many were written, ``forbidden`` what the group is ("in use", "of
    another kind") where that prevents commits, and ``faults`` what failed."""

    positions: int = 0
    forbidden: str | None = None
    faults: tuple[GroupFault, ...] = ()


class GroupCommitter:
    """Commits to one cluster's groups, one request per group: the brokers accept each of its partitions or return an
    error for it.

    ``pool`` is that of the cluster's connections where it is shared.
    """

    def __init__(
        self, cluster: ClusterSettings, *, timeout_seconds: float = REQUEST_SECONDS, pool: LinkPool | None = None
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._links = LinkGroups(cluster, pool=pool)

    def commit_all(self, wanted: Mapping[str, Sequence[Checkpoint]]) -> dict[str, Committed]:
        """Commit the downstream offsets of each group; a group that fails is a fault, and does not stop the others.

        Raises:
            UnreachableCluster, AccessDenied, UnsupportedBroker: no connection to the cluster can be made.
        """
        out: dict[str, Committed] = {}
        waiting = list(wanted)
        deadline = time.monotonic() + min(RETRY_SECONDS, self._timeout)
        while waiting:
            batch, waiting = waiting[:_GROUPS_AT_ONCE], waiting[_GROUPS_AT_ONCE:]
            again = []
            for group, answer in self._ask({group: wanted[group] for group in batch}):
                try:
                    places = answer.result().topic_partitions or ()
                    refused = [(place.error, place.topic) for place in places if place.error is not None]
                except KafkaException as error:
                    places, refused = (), [(error, "")]
                # A new coordinator refuses while it loads, and says so for each partition.
                if any(transient(error) for error, _ in refused) and time.monotonic() < deadline:
                    again.append(group)
                else:
                    out[group] = self._judged(group, len(places), refused)
            if again:
                waiting += again
                time.sleep(PAUSE_SECONDS)
        return out

    def _judged(self, group: str, asked: int, refused: Sequence[tuple[KafkaException | KafkaError, str]]) -> Committed:
        """``refused``: errors, each with its topic, if it is about one."""
        for error, _ in refused:
            found = kafka_error(error)
            if found is not None and found.code() in _FORBIDDEN:
                return Committed(forbidden=_FORBIDDEN[found.code()])
        faults = []
        for error, topic in refused[:1]:
            found = kafka_error(error)
            about_topic = found is not None and found.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            needs = Right("Read", "topic", topic) if about_topic else Right("Read", "group", group)
            fault = cluster_error(self._cluster, f"commit offsets of group {group}", error, needs)
            faults.append(GroupFault(group, str(fault)))
        return Committed(max(0, asked - len(refused)), faults=tuple(faults))

    def _ask(self, wanted: Mapping[str, Sequence[Checkpoint]]) -> Iterable[tuple[str, Future[Any]]]:
        """All requests go out before the first answer is read."""
        requests = [
            ConsumerGroupTopicPartitions(
                group,
                [
                    TopicPartition(checkpoint.topic, checkpoint.partition, checkpoint.downstream, checkpoint.metadata)
                    for checkpoint in checkpoints
                ],
            )
            for group, checkpoints in wanted.items()
        ]
        return self._links.alter_consumer_group_offsets(requests, request_timeout=self._timeout).items()


#: The newest that is needed: its response has states. The kind of group follows from the protocol type.
_LIST_GROUPS_VERSION = 4
_KINDS = ("share", "streams")


def other_groups(
    cluster: ClusterSettings, *, timeout_seconds: float = 30.0, pool: LinkPool | None = None
) -> tuple[list[Group], list[GroupFault]]:
    """Share groups and streams groups by name, with the kind as ``protocol``; what a broker could not list is a fault.

    Raises:
        UnreachableCluster, AccessDenied, UnsupportedBroker: as the cluster answers.
    """
    with ClusterLink(
        cluster.of_client(Client.ADMIN), part="groups", request_timeout_ms=int(timeout_seconds * 1000), pool=pool
    ) as link:
        return link.run(lambda: _listed(link, timeout_seconds))


async def _listed(link: ClusterLink, timeout_seconds: float) -> tuple[list[Group], list[GroupFault]]:
    await link.open(timeout_seconds=timeout_seconds)
    groups: list[Group] = []
    faults: list[GroupFault] = []
    answers = await link.ask_each(lambda: ListGroupsRequest(max_version=_LIST_GROUPS_VERSION, states_filter=[]))
    for node, answer in answers.items():
        doing = f"cluster '{link.alias}' could not list the groups of broker {node}"
        if isinstance(answer, (RetriableFault, ClusterError)):
            faults.append(GroupFault("", f"{doing}: {answer}"))
            continue
        # A coordinator that is loading lists the groups it knows so far.
        if answer.error_code not in (codes.NONE, *codes.COORDINATOR_MOVES):
            faults.append(GroupFault("", f"{doing}: {codes.name(answer.error_code)}"))
        groups += [
            Group(one.group_id, one.group_state.lower(), one.protocol_type)
            for one in answer.groups
            if one.protocol_type in _KINDS
        ]
    return sorted(groups, key=lambda group: group.name), faults
