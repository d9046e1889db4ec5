"""Topics, configs and offsets of one cluster: our values in, our values out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_id import known_topic_id
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.actions import AlterConfigs, CreateTopic, GrowPartitions
from srm_common.domain.topics.topic_settings import Source, TopicSetting
from srm_common.errors import SrmError, UnreachableCluster
from srm_common.kafka.client.faults import cluster_error, is_too_much, kafka_error
from srm_common.kafka.client.librdkafka import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    KafkaError,
    KafkaException,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicCollection,
)
from srm_common.kafka.client.links.shared_admin import SharedAdmin

T = TypeVar("T")

_METADATA_SECONDS = 5.0
_UNREACHABLE_SECONDS = 20.0
_PAUSE_SECONDS = 0.05
#: Topics per request: keeps responses so small that no broker takes seconds for one.
_BATCH = 500
#: What one request may change, in records of the controller's log; KRaft's writes them as one batch, 10,000 at most.
_RECORDS = 5000
_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: Source.TOPIC,
    ConfigSource.DYNAMIC_BROKER_CONFIG: Source.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: Source.DYNAMIC_BROKER,
    ConfigSource.STATIC_BROKER_CONFIG: Source.STATIC_BROKER,
    ConfigSource.DEFAULT_CONFIG: Source.DEFAULT,
}


@dataclass(frozen=True)
class ClusterTopics:
    """What one metadata answer says: ids of the brokers that respond, the number of partitions of every topic, the
    cluster's id, the fewest replicas of a partition by topic, and the brokers that hold any."""

    brokers: tuple[int, ...]
    partitions: Mapping[str, int]
    cluster_id: str = ""
    replicas: Mapping[str, int] = field(default_factory=dict)
    holders: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """``topic_id`` distinguishes a topic from a later one of the same name; NO_TOPIC_ID where it has none."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicsSettings:
    """``found`` are the settings by topic; ``faults`` says of others why their settings cannot be read."""

    found: Mapping[str, Mapping[str, TopicSetting]]
    faults: Mapping[str, SrmError]


class ClusterAdmin:
    """Admin calls to one cluster. Every method raises UnreachableCluster, AccessDenied, UnsupportedBroker or
    ClusterError; those that change several topics return a result for each.

    ``timeout_seconds`` limits each request; ``admin`` has the cluster's clients where they are shared.
    """

    def __init__(
        self, cluster: ClusterSettings, *, timeout_seconds: float = 60.0, admin: SharedAdmin | None = None
    ) -> None:
        self.cluster = cluster
        self._timeout = timeout_seconds
        self._shared = admin or SharedAdmin(cluster)
        self._links = self._shared.links

    # ---- looking

    def topics(self) -> ClusterTopics:
        """All topics, by one metadata request."""
        deadline = time.monotonic() + min(self._timeout, _UNREACHABLE_SECONDS)
        while True:
            try:
                answer = self._links.list_topics(timeout=min(_METADATA_SECONDS, self._timeout))
                break
            except UnreachableCluster:
                if time.monotonic() > deadline:
                    raise
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise self._error("list its topics", error) from error
            time.sleep(_PAUSE_SECONDS)
        holders: set[int] = set()
        replicas: dict[str, int] = {}
        for name, topic in answer.topics.items():
            if topic.partitions:
                held = [partition.replicas for partition in topic.partitions.values()]
                holders.update(*held)
                replicas[name] = min(map(len, held))
        return ClusterTopics(
            tuple(sorted(answer.brokers)),
            {name: len(topic.partitions) for name, topic in answer.topics.items() if topic.partitions},
            answer.cluster_id or "",
            replicas,
            frozenset(holders),
        )

    def cluster_id(self) -> str:
        answer = self._ask("describe itself", lambda: self._links.describe_cluster(request_timeout=self._timeout))
        return str(self._one("describe itself", answer).cluster_id)

    def describe_topics(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        """Ids and partitions of those of ``topics`` that exist."""
        facts: dict[str, TopicFacts] = {}
        for batch in _batches(topics):
            futures = self._ask("describe topics", partial(self._describe, batch))
            for name, future in futures.items():
                try:
                    answer = future.result()
                except KafkaException as error:
                    fault = kafka_error(error)
                    if fault is not None and fault.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    needs = Right("Describe", "topic", name)
                    raise self._error(f"describe topic {name}", error, needs) from error
                facts[name] = TopicFacts(known_topic_id(str(answer.topic_id)), len(answer.partitions))
        return facts

    def topic_settings(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, TopicSetting]]:
        """All settings of each topic; a topic that was deleted meanwhile is left out. Raises what is wrong with the
        first topic whose settings cannot be read."""
        described = self.describe_settings(topics)
        for fault in described.faults.values():
            raise fault
        return described.found

    def describe_settings(self, topics: Iterable[str], keys: Sequence[str] | None = None) -> TopicsSettings:
        """The settings of each topic, or why they cannot be read; a topic that was deleted meanwhile is left out.

        Args:
            keys: these settings alone, by default all: a topic has some forty.
        """
        # All requests go out before the first answer is read.
        asked = [
            self._ask("describe the settings of topics", partial(self._describe_settings, batch, keys))
            for batch in _batches(topics)
        ]
        found: dict[str, Mapping[str, TopicSetting]] = {}
        faults: dict[str, SrmError] = {}
        for futures in asked:
            for resource, future in futures.items():
                try:
                    entries: dict[str, ConfigEntry] = future.result()
                except KafkaException as error:
                    fault = kafka_error(error)
                    if fault is not None and fault.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    needs = Right("DescribeConfigs", "topic", resource.name)
                    told = self._error(f"describe the settings of topic {resource.name}", error, needs)
                    if isinstance(told, UnreachableCluster):
                        raise told from error
                    faults[resource.name] = told
                    continue
                found[resource.name] = {sys.intern(key): _setting(entry) for key, entry in entries.items()}
        return TopicsSettings(found, faults)

    def broker_settings(self, broker: int) -> dict[str, str | None]:
        """The settings of one broker, sensitive ones as None."""
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        futures = self._ask(
            "describe the settings of a broker",
            lambda: self._links.describe_configs([resource], request_timeout=self._timeout),
        )
        entries: dict[str, ConfigEntry] = self._one("describe the settings of a broker", futures[resource])
        return {key: entry.value for key, entry in entries.items()}

    def offsets(
        self, partitions: Iterable[TopicPartition], at: int, *, committed: bool = True
    ) -> dict[TopicPartition, int | SrmError]:
        """Offsets at EARLIEST or LATEST; with ``committed`` the latest is the last stable one."""
        places = dict.fromkeys(partitions, at)
        answers = self._ask(
            "list offsets",
            lambda: self._links.list_offsets(places, committed=committed, request_timeout=self._timeout),
        )
        offsets: dict[TopicPartition, int | SrmError] = {}
        for place, answer in answers.items():
            if isinstance(answer, KafkaError):
                needs = Right("Describe", "topic", place.topic)
                offsets[place] = self._error(f"list the offset of {place.topic}-{place.partition}", answer, needs)
            else:
                offsets[place] = answer
        return offsets

    # ---- changing

    def create_topics(self, actions: Sequence[CreateTopic], *, validate_only: bool = False) -> list[KafkaError | None]:
        """One result per action, None when done; see :meth:`await_leaders` for when the topics can be used.
        ``validate_only``: only ask whether they could be created."""

        def create(batch: Sequence[CreateTopic]) -> Mapping[Any, Future[Any]]:
            topics = [
                NewTopic(
                    action.topic,
                    num_partitions=action.partitions,
                    replication_factor=action.replication_factor,
                    config=dict(action.configs),
                )
                for action in batch
            ]
            return self._shared.client.create_topics(
                topics,
                operation_timeout=self._timeout,
                request_timeout=self._timeout + 5,
                validate_only=validate_only,
            )

        return self._each(
            "create topics",
            actions,
            create,
            lambda action: action.topic,
            lambda action: 1 + action.partitions + len(action.configs),
        )

    def grow_partitions(self, actions: Sequence[GrowPartitions]) -> list[KafkaError | None]:
        """One result per action, None when done."""

        def grow(batch: Sequence[GrowPartitions]) -> Mapping[Any, Future[Any]]:
            return self._shared.client.create_partitions(
                [NewPartitions(action.topic, action.after) for action in batch],
                operation_timeout=self._timeout,
                request_timeout=self._timeout + 5,
            )

        return self._each(
            "add partitions", actions, grow, lambda action: action.topic, lambda action: action.after - action.before
        )

    def alter_configs(self, actions: Sequence[AlterConfigs]) -> list[KafkaError | None]:
        """One result per action, None when done; settings that an action does not name are left alone."""

        def alter(batch: Sequence[AlterConfigs]) -> Mapping[Any, Future[Any]]:
            resources = [
                ConfigResource(
                    ResourceType.TOPIC,
                    action.topic,
                    incremental_configs=[
                        ConfigEntry(
                            change.key,
                            change.after,
                            incremental_operation=(
                                AlterConfigOpType.DELETE if change.after is None else AlterConfigOpType.SET
                            ),
                        )
                        for change in action.changes
                    ],
                )
                for action in batch
            ]
            return self._shared.client.incremental_alter_configs(resources, request_timeout=self._timeout)

        return self._each(
            "alter the settings of topics",
            actions,
            alter,
            lambda action: ConfigResource(ResourceType.TOPIC, action.topic),
            lambda action: len(action.changes),
        )

    def await_leaders(self, topics: Mapping[str, int], *, seconds: float) -> set[str]:
        """Wait until brokers list each topic with all its partitions and their leaders; returns topics that lack some.

        A broker confirms a creation before it knows the topic itself, and refuses records for partitions unknown to it.
        """
        deadline = time.monotonic() + seconds
        pause = _PAUSE_SECONDS
        while True:
            try:
                answer = self._links.list_topics(timeout=self._timeout).topics
            except KafkaException as error:
                raise self._error("list its topics", error) from error
            waiting = set()
            for name, partitions in topics.items():
                seen = answer[name].partitions.values() if name in answer else ()
                if sum(partition.leader >= 0 for partition in seen) < partitions:
                    waiting.add(name)
            if not waiting or time.monotonic() > deadline:
                return waiting
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    # ---- inside

    def _describe(self, topics: list[str]) -> Mapping[str, Future[Any]]:
        return self._links.describe_topics(TopicCollection(topics), request_timeout=self._timeout)

    def _describe_settings(self, topics: list[str], keys: Sequence[str] | None) -> Mapping[ConfigResource, Future[Any]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        return self._links.describe_configs(resources, request_timeout=self._timeout, keys=keys)

    def _each(
        self,
        doing: str,
        actions: Sequence[T],
        send: Callable[[Sequence[T]], Mapping[Any, Future[Any]]],
        key: Callable[[T], object],
        records: Callable[[T], int],
    ) -> list[KafkaError | None]:
        results: list[KafkaError | None] = []
        for batch in _batches(actions, records):
            futures = self._ask(doing, partial(send, batch))
            faults: list[KafkaError | None] = []
            for action in batch:
                try:
                    futures[key(action)].result()
                    faults.append(None)
                except KafkaException as error:
                    fault = kafka_error(error)
                    if fault is None:
                        raise self._error(doing, error) from error
                    faults.append(fault)
            if len(batch) > 1 and all(fault is not None and is_too_much(fault) for fault in faults):
                # A controller that takes less than those we know.
                half = len(batch) // 2
                faults = [
                    fault
                    for part in (batch[:half], batch[half:])
                    for fault in self._each(doing, part, send, key, records)
                ]
            results += faults
        return results

    def _error(self, doing: str, error: KafkaException | KafkaError, needs: Right | None = None) -> SrmError:
        return cluster_error(self.cluster, doing, self._shared.explained(error), needs)

    def _ask(self, doing: str, send: Callable[[], T]) -> T:
        try:
            return send()
        except KafkaException as error:
            raise self._error(doing, error) from error

    def _one(self, doing: str, future: Future[T]) -> T:
        try:
            return future.result()
        except KafkaException as error:
            raise self._error(doing, error) from error


def _setting(entry: ConfigEntry) -> TopicSetting:
    return _shared(entry.value, entry.source, entry.is_read_only or entry.is_sensitive)


@lru_cache(maxsize=10_000)
def _shared(value: str | None, source: int, fixed: bool) -> TopicSetting:
    """One object for equal settings: thousands of topics have forty settings each, nearly all alike."""
    return TopicSetting(value, _SOURCES.get(ConfigSource(source), Source.DEFAULT), fixed)


def _batches(items: Iterable[T], records: Callable[[T], int] = lambda item: 1) -> Iterator[list[T]]:
    """In parts for one request each; one item alone may have more than :data:`_RECORDS`."""
    batch: list[T] = []
    size = 0
    for item in items:
        if batch and (len(batch) == _BATCH or size + records(item) > _RECORDS):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += records(item)
    if batch:
        yield batch
