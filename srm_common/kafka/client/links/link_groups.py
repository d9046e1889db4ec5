"""Offsets and consumer groups of one cluster by kafka-python, as librdkafka's admin client has them (link_admin.py)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from srm_common.domain.cluster import REQUEST_TIMEOUT_MS, Client, ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, UnreachableCluster
from srm_common.kafka.client.library import (
    DescribeGroupsRequest,
    Errors,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from srm_common.kafka.client.librdkafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from srm_common.kafka.client.links.group_coordinators import (
    GROUPS_PER_REQUEST,
    GroupCoordinators,
    in_halves,
    in_parts,
    offset_fetch_request,
)
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault, list_offsets_request
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.links.retriable_fault import AnswerTooLarge, OlderBroker
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey

T = TypeVar("T")

_REACH_SECONDS = 20.0
#: For how long offsets are asked for again while leaders move.
_SETTLING_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
#: The newest OffsetCommit that has the names of topics (version 10 has their ids), and OffsetFetch for a single group.
_OFFSET_COMMIT_VERSION, _OLD_OFFSET_FETCH_VERSION = 8, 7
_LIST_GROUPS_VERSION, _WITH_STATES_VERSION, _DESCRIBE_GROUPS_VERSION = 5, 4, 5
#: Connect's workers, share groups and the like are not consumer groups.
_PROTOCOL_TYPES = ("consumer", "")


#: States of groups for which librdkafka has other words than Kafka.
_STATES = {"PreparingRebalance": "preparing_rebalancing", "CompletingRebalance": "completing_rebalancing"}


class LinkGroups:
    """The part of :class:`~srm_common.kafka.client.links.link_admin.LinkAdmin` about offsets and groups, and its
    connections.

    Each call takes connections from ``pool``, or makes its own, and gives them back: threads may share it, and none
    waits for another.
    """

    def __init__(self, cluster: ClusterSettings, *, pool: LinkPool | None = None) -> None:
        self._pool, self._owns_pool = pool or LinkPool(), pool is None
        self._cluster = cluster.of_client(Client.ADMIN)
        self._coordinators = GroupCoordinators()

    def list_offsets(
        self, places: Mapping[TopicPartition, int], *, committed: bool, request_timeout: float = -1
    ) -> dict[TopicPartition, int | KafkaError]:
        """By partition: the offset, or why there is none. While a leader moves, its partitions are asked about again.

        Args:
            places: partition -> EARLIEST, LATEST (the last stable offset when ``committed``) or a timestamp in ms.
        """

        async def work(link: ClusterLink) -> dict[TopicPartition, int | KafkaError]:
            offsets: dict[TopicPartition, int | KafkaError] = {}
            deadline = time.monotonic() + min(_SETTLING_SECONDS, _seconds(request_timeout))
            left = dict(places)
            while True:
                answers = await _list_offsets(link, left, committed)
                offsets.update({one: answer.result for one, answer in answers.items()})
                left = {one: places[one] for one, answer in answers.items() if answer.passing}
                if not left or time.monotonic() > deadline:
                    return offsets
                await link.loop.sleep(_PAUSE_SECONDS)

        return self.ask(work, request_timeout) if places else {}

    def list_consumer_groups(self, *, request_timeout: float = -1) -> Future[Any]:
        """``valid`` are groups, ``errors`` what a broker could not list."""

        async def work(link: ClusterLink) -> Any:
            def request() -> Any:
                return ListGroupsRequest(max_version=_LIST_GROUPS_VERSION, states_filter=[], types_filter=[])

            groups, errors = [], []
            for node, answer in (await link.ask_each(request)).items():
                if isinstance(answer, (RetriableFault, ClusterError)):
                    errors.append(KafkaException(KafkaError(KafkaError._TRANSPORT, str(answer))))
                elif answer.error_code:
                    errors.append(_exception(answer.error_code, None))
                else:
                    found = [group for group in answer.groups if group.protocol_type in _PROTOCOL_TYPES]
                    try:
                        await _add_states(link, node, found)
                    except RetriableFault as error:
                        errors.append(KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))))
                    groups += [_listing(group) for group in found]
            return SimpleNamespace(valid=groups, errors=errors)

        return done(self.ask(work, request_timeout))

    def list_consumer_group_offsets(
        self, requests: Sequence[ConsumerGroupTopicPartitions], *, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """All offsets of each group, by its name. Groups with the same coordinator share requests, since Kafka 3.0."""
        groups = {request.group_id: request.group_id for request in requests}
        return self._of_groups(groups, self._group_offsets, GROUPS_PER_REQUEST, request_timeout)

    def alter_consumer_group_offsets(
        self, requests: Sequence[ConsumerGroupTopicPartitions], *, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """By group: its partitions, each with its error where there is one."""
        wanted = {request.group_id: request for request in requests}
        return self._of_groups(wanted, self._commit, 1, request_timeout)

    async def _group_offsets(self, link: ClusterLink, node: int, groups: Sequence[str]) -> dict[str, tuple[int, Any]]:
        try:
            answer = await link.send(node, offset_fetch_request(groups))
            return {one.group_id: _committed(one.group_id, one) for one in answer.groups}
        except OlderBroker:
            answers = await link.send_each((node, _old_offset_fetch_request(group)) for group in groups)
        if fault := next((answer for answer in answers if isinstance(answer, RetriableFault)), None):
            raise fault
        return {group: _committed(group, answer) for group, answer in zip(groups, answers, strict=True)}

    async def _commit(
        self, link: ClusterLink, node: int, requests: Sequence[ConsumerGroupTopicPartitions]
    ) -> dict[str, tuple[int, Any]]:
        (wanted,) = requests
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for place in wanted.topic_partitions or ():
            part = topic.OffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=place.offset,
                committed_leader_epoch=-1,
                committed_metadata=place.metadata or "",
            )
            by_topic[place.topic].append(part)
        answer = await link.send(
            node,
            OffsetCommitRequest(
                version=_OFFSET_COMMIT_VERSION,
                group_id=wanted.group_id,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[topic(name=name, partitions=ones) for name, ones in by_topic.items()],
            ),
        )
        results = [
            (topic.name, one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions
        ]
        moved = next((code for _, _, code in results if code in codes.COORDINATOR_MOVES), codes.NONE)
        places = [_place(topic, partition, -1, "", code) for topic, partition, code in results]
        return {wanted.group_id: (moved, SimpleNamespace(group_id=wanted.group_id, topic_partitions=places))}

    def _of_groups(
        self,
        wanted: Mapping[str, T],
        ask: Callable[[ClusterLink, int, Sequence[T]], Awaitable[dict[str, tuple[int, Any]]]],
        per_request: int,
        seconds: float,
    ) -> dict[str, Future[Any]]:
        """Send ``ask`` to the coordinators, side by side, each time for at most ``per_request`` groups, and for half
        of them where the answer is too large; it returns error code and value by group."""

        async def of_part(link: ClusterLink, node: int, groups: Sequence[str]) -> dict[str, Future[Any]]:
            try:
                found = await ask(link, node, [wanted[group] for group in groups])
            except RetriableFault as error:
                if isinstance(error, AnswerTooLarge) and len(groups) > 1:
                    return {
                        group: answer
                        for half in in_halves(groups)
                        for group, answer in (await of_part(link, node, half)).items()
                    }
                self._coordinators.forget(groups)
                return {group: _not_answered(error) for group in groups}
            self._coordinators.forget(group for group, (code, _) in found.items() if code in codes.COORDINATOR_MOVES)
            return {group: _failed(code, None) if code else done(value) for group, (code, value) in found.items()}

        async def work(link: ClusterLink) -> dict[str, Future[Any]]:
            by_node, refused = await self._coordinators.find(link, wanted)
            asked = [
                link.loop.call_soon_with_future(of_part, link, node, part)
                for node, groups in by_node.items()
                for part in in_parts(groups, per_request)
            ]
            answers = {group: _failed(code, None) for group, code in refused.items()}
            for one in asked:
                answers |= await one
            left_out = RetriableFault("the response leaves out a group that was asked for")
            return {group: answers.get(group) or _not_answered(left_out) for group in wanted}

        try:
            return self.ask(work, seconds)
        except KafkaException as error:
            self._coordinators.clear()
            return {group: _not_answered(error) for group in wanted}

    # ---- inside

    def ask(self, work: Callable[[ClusterLink], Awaitable[T]], seconds: float) -> T:
        """Each request of ``work`` may take ``seconds``; 0 or less means the default."""
        wait = _seconds(seconds)

        async def opened() -> T:
            await link.open(timeout_seconds=min(wait, _REACH_SECONDS))
            return await work(link)

        limit_ms = round(wait * 1000)
        with ClusterLink(
            self._cluster, part="admin", request_timeout_ms=limit_ms, at_most_ms=limit_ms, pool=self._pool
        ) as link:
            try:
                return link.run(opened)
            except RetriableFault as error:
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))) from error

    def __del__(self) -> None:
        # As librdkafka's: its connections end with the last reference.
        if self._owns_pool:
            self._pool.close()


def _old_offset_fetch_request(group: str) -> Any:
    return OffsetFetchRequest(max_version=_OLD_OFFSET_FETCH_VERSION, group_id=group, topics=None, require_stable=False)


def _seconds(limit: float) -> float:
    """How long a request may take; 0 or less means the default, as with librdkafka."""
    return REQUEST_TIMEOUT_MS / 1000 if limit <= 0 else limit


class _Offset(NamedTuple):
    """``passing``: the same request may succeed a moment later."""

    result: int | KafkaError
    passing: bool = False


async def _list_offsets(
    link: ClusterLink, places: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, _Offset]:
    """One request to each leader, side by side."""
    try:
        await link.know({topic for topic, _ in places})
    except UnreachableCluster as error:
        # All brokers may be restarting: callers ask again then, within their patience.
        raise RetriableFault(str(error)) from error
    offsets: dict[TopicPartition, _Offset] = {}
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for place in places:
        leader = link.leader(*place)
        if leader is None:
            code = _leaderless(link, place)
            electing = code == Errors.LeaderNotAvailableError.errno
            offsets[place] = _Offset(error_of(code, str(link.leaderless(*place))), electing)
        else:
            by_leader[leader].append(place)
    answers = await link.send_each(
        (leader, list_offsets_request({partition: places[partition] for partition in ones}, committed))
        for leader, ones in by_leader.items()
    )
    for ones, answer in zip(by_leader.values(), answers, strict=True):
        if isinstance(answer, RetriableFault):
            silent = _Offset(KafkaError(KafkaError._TRANSPORT, str(answer)), passing=True)
            offsets.update(dict.fromkeys(ones, silent))
            continue
        for topic in answer.topics:
            for part in topic.partitions:
                code = part.error_code
                result = error_of(code, None) if code else part.offset
                offsets[TopicPartition(topic.name, part.partition_index)] = _Offset(result, codes.retriable(code))
    return offsets


def _leaderless(link: ClusterLink, one: TopicPartition) -> int:
    cluster = link.manager.cluster
    if one.topic in cluster.unauthorized_topics:
        return codes.TOPIC_AUTHORIZATION_FAILED
    known = cluster.partitions_for_topic(one.topic)
    if known is None or one.partition not in known:
        return codes.UNKNOWN_TOPIC_OR_PARTITION
    return Errors.LeaderNotAvailableError.errno  # type: ignore[no-any-return]


async def _add_states(link: ClusterLink, node: int, groups: Sequence[Any]) -> None:
    """Brokers before 2.6 list groups without their states."""
    without = {group.group_id: group for group in groups if not group.group_state}
    if not without or link.takes(node, ApiKey.LIST_GROUPS, _WITH_STATES_VERSION):
        return
    answer = await link.send(
        node,
        DescribeGroupsRequest(
            max_version=_DESCRIBE_GROUPS_VERSION, groups=[*without], include_authorized_operations=False
        ),
    )
    for described in answer.groups:
        if not described.error_code and described.group_id in without:
            without[described.group_id].group_state = described.group_state


def _listing(answer: Any) -> Any:
    kind = getattr(answer, "group_type", None)
    return SimpleNamespace(
        group_id=answer.group_id,
        state=SimpleNamespace(name=_STATES.get(answer.group_state, answer.group_state or "unknown")),
        type=SimpleNamespace(name=kind) if kind else None,
    )


def _committed(group: str, answer: Any) -> tuple[int, Any]:
    """Error code, and offsets, as one group has them in the response to OffsetFetch."""
    places = [
        _place(
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.metadata or "",
            partition.error_code,
        )
        for topic in answer.topics
        for partition in topic.partitions
    ]
    return answer.error_code, SimpleNamespace(group_id=group, topic_partitions=places)


def _place(topic: str, partition: int, offset: int, metadata: str, code: int) -> Any:
    error = error_of(code, None) if code else None
    return SimpleNamespace(topic=topic, partition=partition, offset=offset, metadata=metadata, error=error)


def error_of(code: int, message: str | None) -> KafkaError:
    return KafkaError(code, message or codes.name(code))


def _exception(code: int, message: str | None) -> KafkaException:
    return KafkaException(error_of(code, message))


def done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


def _not_answered(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    if not isinstance(error, KafkaException):
        error = KafkaException(KafkaError(KafkaError._TRANSPORT, str(error)))
    future.set_exception(error)
    return future


def _failed(code: int, message: str | None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(_exception(code, message))
    return future


def answered(code: int, message: str | None, value: Callable[[], Any] = lambda: None) -> Future[Any]:
    return _failed(code, message) if code else done(value())
