"""Consumer groups of one cluster: their names, states and committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.faults import cluster_error, transient
from srm_common.kafka.client.librdkafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from srm_common.kafka.client.links.group_coordinators import GROUPS_PER_REQUEST
from srm_common.kafka.client.links.link_groups import LinkGroups
from srm_common.kafka.client.links.link_pool import LinkPool

REQUEST_SECONDS = 30.0
RETRY_SECONDS = 10.0
PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Group:
    """``state`` is Kafka's own word in lower case ("stable", "empty", "dead", ...); ``protocol`` "classic" or
    "consumer" (KIP-848), "unknown" where the broker does not say."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset a group will read, and the metadata of its commit."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What a group has committed; partitions without a commit are absent. ``asked`` is when, by the monotonic clock."""

    group: str
    offsets: dict[TopicPartition, CommittedOffset]
    asked: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class GroupFault:
    """One group could not be read; the others were. Without a name: a broker could not list its groups."""

    group: str
    reason: str

    def __str__(self) -> str:
        return f"group {self.group}: {self.reason}" if self.group else self.reason


class GroupReader:
    """Queries one cluster for its consumer groups; ``pool`` is that of the cluster's connections where it is shared."""

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float = REQUEST_SECONDS,
        pool: LinkPool | None = None,
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._links = LinkGroups(cluster, pool=pool)

    def groups(self) -> tuple[list[Group], list[GroupFault]]:
        """Consumer groups of every state, by name; what a broker could not list is a fault without a name.

        Groups of other kinds (Connect's workers, share groups) are left out, as MirrorMaker 2 does.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
        """
        doing = "list its consumer groups"
        deadline = time.monotonic() + min(RETRY_SECONDS, self._timeout)
        while True:
            try:
                answer = self._links.list_consumer_groups(request_timeout=self._timeout).result()
            except KafkaException as error:
                if not transient(error) or time.monotonic() > deadline:
                    raise cluster_error(self._cluster, doing, error) from error
            else:
                errors = list(answer.errors or ())
                if not any(transient(error) for error in errors) or time.monotonic() > deadline:
                    break
            time.sleep(PAUSE_SECONDS)
        if errors and not answer.valid:
            raise cluster_error(self._cluster, doing, errors[0])
        groups = [
            Group(listing.group_id, _word(listing.state), _word(getattr(listing, "type", None)))
            for listing in answer.valid or ()
        ]
        faults = [GroupFault("", str(cluster_error(self._cluster, doing, error))) for error in errors]
        return sorted(groups, key=lambda group: group.name), faults

    def offsets(self, groups: Iterable[str]) -> tuple[list[GroupOffsets], list[GroupFault]]:
        """What each group has committed; a group that cannot be read is a fault, and does not stop the others."""
        out: list[GroupOffsets] = []
        faults: list[GroupFault] = []
        waiting = list(groups)
        deadline = time.monotonic() + min(RETRY_SECONDS, self._timeout)
        while waiting:
            batch, waiting = waiting[:GROUPS_PER_REQUEST], waiting[GROUPS_PER_REQUEST:]
            asked = time.monotonic()
            for group, answer in self._ask(batch):
                try:
                    out.append(_offsets(group, answer.result(), asked))
                except KafkaException as error:
                    if transient(error) and time.monotonic() < deadline:
                        waiting.append(group)
                        continue
                    fault = cluster_error(
                        self._cluster,
                        f"return the offsets of group {group}",
                        error,
                        Right("Describe", "group", group),
                    )
                    faults.append(GroupFault(group, str(fault)))
            if waiting and len(batch) < GROUPS_PER_REQUEST:
                time.sleep(PAUSE_SECONDS)
        return sorted(out, key=lambda found: found.group), faults

    def _ask(self, groups: list[str]) -> list[tuple[str, Future[Any]]]:
        """What each group has committed; all requests are sent at once."""
        requests = [ConsumerGroupTopicPartitions(group) for group in groups]
        try:
            answers = self._links.list_consumer_group_offsets(requests, request_timeout=self._timeout)
        except UnreachableCluster as error:
            failed: Future[Any] = Future()
            failed.set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))))
            return [(group, failed) for group in groups]
        return [(group, answers[group]) for group in groups]


def _offsets(group: str, answer: ConsumerGroupTopicPartitions, asked: float) -> GroupOffsets:
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for place in answer.topic_partitions or ():
        if place.error is not None:
            raise KafkaException(place.error)
        if place.offset >= 0:
            offsets[TopicPartition(place.topic, place.partition)] = CommittedOffset(
                place.offset,
                # librdkafka ends metadata with a zero byte when it commits for other groups.
                (place.metadata or "").split("\0")[0],
            )
    return GroupOffsets(group, offsets, asked)


def _word(value: Any) -> str:
    name = getattr(value, "name", None)
    return "unknown" if name is None else str(name).lower().replace("_", "-")
