"""Consumer groups of one cluster: their names, states and committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import SrmError
from srm_common.kafka.client.faults import cluster_error, transient
from srm_common.kafka.client.librdkafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, SharedAdmin
from srm_common.kafka.client.link_pool import LinkPool

REQUEST_SECONDS = 30.0
RETRY_SECONDS = 10.0
PAUSE_SECONDS = 0.1
#: Requests in flight at a time, for one group each; commits wait for the replicas of the offsets topic.
GROUPS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Group:
    """``state`` is Kafka's own word in lower case ("stable", "empty", "dead", ...); ``protocol`` "classic" or
    "consumer" (KIP-848), "unknown" where the broker does not say."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset a group will read, and what it noted with its commit."""

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
    """One group could not be read; the others were. Without a name: some broker could not list its groups."""

    group: str
    reason: str

    def __str__(self) -> str:
        return f"group {self.group}: {self.reason}" if self.group else self.reason


class GroupReader:
    """Asks one cluster about its consumer groups; ``admin`` is the cluster's client where it is shared, ``pool``
    that of its connections."""

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float = REQUEST_SECONDS,
        admin: SharedAdmin | None = None,
        pool: LinkPool | None = None,
    ) -> None:
        self._cluster = cluster
        self._pool = pool
        self._timeout = timeout_seconds
        self._shared = admin or SharedAdmin(cluster)
        self._admin = self._shared.client
        self._fresh = self._shared.fresh()

    def groups(self) -> tuple[list[Group], list[GroupFault]]:
        """Consumer groups of every state, by name; what some broker could not list is a fault without a name.

        Groups of other kinds (Connect's workers, share groups) are left out, as MirrorMaker 2 does.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
        """
        doing = "list its consumer groups"
        deadline = time.monotonic() + min(RETRY_SECONDS, self._timeout)
        while True:
            try:
                answer = self._admin.list_consumer_groups(request_timeout=self._timeout).result()
            except KafkaException as error:
                if not transient(error) or time.monotonic() > deadline:
                    raise cluster_error(self._cluster, doing, self._reason(error)) from error
            else:
                errors = list(answer.errors or ())
                if not any(transient(error) for error in errors) or time.monotonic() > deadline:
                    break
            time.sleep(PAUSE_SECONDS)
        if errors and not answer.valid:
            raise cluster_error(self._cluster, doing, self._reason(errors[0]))
        found = [
            Group(listing.group_id, _word(listing.state), _word(getattr(listing, "type", None)))
            for listing in answer.valid or ()
        ]
        faults = [GroupFault("", str(cluster_error(self._cluster, doing, error))) for error in errors]
        return sorted(found, key=lambda group: group.name), faults

    def offsets(self, groups: Iterable[str]) -> tuple[list[GroupOffsets], list[GroupFault]]:
        """What each group has committed; a group that cannot be read is a fault, and only that."""
        out: list[GroupOffsets] = []
        faults: list[GroupFault] = []
        waiting = list(groups)
        deadline = time.monotonic() + min(RETRY_SECONDS, self._timeout)
        while waiting:
            batch, waiting = waiting[:GROUPS_AT_ONCE], waiting[GROUPS_AT_ONCE:]
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
                        self._reason(error),
                        Right("Describe", "group", group),
                    )
                    faults.append(GroupFault(group, str(fault)))
            if waiting and len(batch) < GROUPS_AT_ONCE:
                time.sleep(PAUSE_SECONDS)
        out, unread = self._with_notes(out)
        return sorted(out, key=lambda found: found.group), [*faults, *unread]

    def _with_notes(self, found: list[GroupOffsets]) -> tuple[list[GroupOffsets], list[GroupFault]]:
        """Read what groups have noted once more, by kafka-python: where librdkafka copies a note it leaves out the zero
        byte, and confluent-kafka reads on to the next one, whatever lies there. What librdkafka itself wrote ends with
        one of its own. Brokers before Kafka 3.0 are not asked again."""
        noted = {one.group: one for one in found if any(at.metadata for at in one.offsets.values())}
        if not noted:
            return found, []
        # Not at the top: most readers do without kafka-python.
        from srm_common.kafka.groups.group_watch import GroupWatch

        try:
            with GroupWatch(
                self._cluster.of_client(Client.ADMIN), timeout_seconds=self._timeout, pool=self._pool
            ) as watch:
                answer = watch.of_groups(noted)
        except SrmError as error:
            answer = [], [str(error)]
        if answer is None:
            return found, []
        exact = {one.group: replace(one, asked=noted[one.group].asked) for one in answer[0]}
        reason = next(iter(answer[1]), "its coordinator moves")
        faults = [GroupFault(group, reason) for group in sorted(noted.keys() - exact.keys())]
        return [exact.get(one.group, one) for one in found if one.group in exact or one.group not in noted], faults

    def _ask(self, groups: list[str]) -> list[tuple[str, Future[Any]]]:
        """One request per group, all in flight at once: the client takes a single group a call.

        By a new client: one that knows coordinators from before may ask a broker that is none any more, and where that
        refuses, librdkafka ends the process (``rd_kafka_handle_OffsetFetch`` tells a group that admin clients lack).
        """
        self._fresh = self._shared.fresh()
        out = []
        for group in groups:
            request = [ConsumerGroupTopicPartitions(group)]
            answers = self._fresh.client.list_consumer_group_offsets(request, request_timeout=self._timeout)
            out.append((group, answers[group]))
        return out

    def _reason(self, error: KafkaException | KafkaError) -> KafkaException | KafkaError:
        """The same, or why no connection was made."""
        first = self._fresh.explained(error)
        return first if first is not error else self._shared.explained(error)


def _offsets(group: str, answer: ConsumerGroupTopicPartitions, asked: float) -> GroupOffsets:
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for place in answer.topic_partitions or ():
        if place.error is not None:
            raise KafkaException(place.error)
        if place.offset >= 0:
            offsets[TopicPartition(place.topic, place.partition)] = CommittedOffset(place.offset, _note(place))
    return GroupOffsets(group, offsets, asked)


def _note(place: Any) -> str:
    try:
        return place.metadata or ""
    except UnicodeDecodeError:  # it reads on behind the note
        return "?"


def _word(value: Any) -> str:
    name = getattr(value, "name", None)
    return "unknown" if name is None else str(name).lower().replace("_", "-")
