"""Creates and checks the topics that hold a flow's state, before anything is read from or written to them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.principals import Right
from srm_common.domain.topics.state_topics import (
    Create,
    FoundTopic,
    Refuse,
    Repair,
    StateTopic,
    alter_command,
    judge,
    state_topics,
)
from srm_common.errors import AccessDenied, ClusterError, SrmError, StateTopicInvalid, UnreachableCluster
from srm_common.kafka.client.faults import cluster_error, kafka_error, transient
from srm_common.kafka.client.librdkafka import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    KafkaError,
    KafkaException,
    NewTopic,
    ResourceType,
    TopicCollection,
    TopicDescription,
)
from srm_common.kafka.client.links.link import EARLIEST
from srm_common.kafka.client.links.shared_admin import SharedAdmin
from srm_common.kafka.state.state_reader import StateReader

_REQUEST_SECONDS = 30.0
_LEADERS_SECONDS = 120.0
_SETTLING_SECONDS = 15.0
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class StateTopics:
    """The state topics of a flow as they exist. ``notes`` say what was created, fixed, or differs from the
    configuration."""

    offsets_topic: str
    offsets_partitions: int
    segments_topic: str
    segments_partitions: int
    notes: tuple[str, ...] = ()


def ensure_state_topics(
    flow: FlowSettings,
    *,
    patience_seconds: float = 0.0,
    source: SharedAdmin | None = None,
    target: SharedAdmin | None = None,
) -> StateTopics:
    """Create what is missing, repair what can be, refuse the rest.

    Args:
        patience_seconds: how long clusters that do not respond, or are just changing leaders, are asked again.
        source, target: the clusters' clients, where they are shared.

    Where the source denies us the offset-syncs topic, replication continues without it: a note says so, and whoever
    writes offset syncs gets the error.

    Raises:
        StateTopicInvalid: names the topic, the setting and the command that fixes it.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    topics = state_topics(flow)
    seconds = flow.request_seconds
    on_target = [topic for topic in topics if topic.location == "target"]
    partitions, notes = ensure_topics(
        flow.target, on_target, timeout_seconds=seconds, patience_seconds=patience_seconds, admin=target
    )
    on_source = [topic for topic in topics if topic.location == "source"]
    try:
        notes += ensure_topics(
            flow.source, on_source, timeout_seconds=seconds, patience_seconds=patience_seconds, admin=source
        )[1]
    except AccessDenied as error:
        notes.append(f"no offset syncs on '{flow.source.alias}': {error}")
    offsets, segments = names.offsets_topic(flow.name.source), names.segments_topic(flow.name.source)
    return StateTopics(offsets, partitions[offsets], segments, partitions[segments], tuple(notes))


def present_state_topics(reader: StateReader, flow: FlowSettings, offsets_topic: str = "") -> StateTopics:
    """The state topics of a flow for reading only: nothing is created or fixed, and what does not exist has no
    partitions.

    Args:
        reader: of the flow's target.
        offsets_topic: where a MirrorMaker 2 in a Connect cluster keeps its offsets; by default the flow's own.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    offsets = offsets_topic or names.offsets_topic(flow.name.source)
    segments = names.segments_topic(flow.name.source)
    return StateTopics(offsets, reader.partitions(offsets), segments, reader.partitions(segments))


def ensure_topics(
    cluster: ClusterSettings,
    topics: Sequence[StateTopic],
    *,
    timeout_seconds: float = _REQUEST_SECONDS,
    patience_seconds: float = 0.0,
    admin: SharedAdmin | None = None,
) -> tuple[dict[str, int], list[str]]:
    """Create or repair ``topics`` of one cluster: (partitions by topic, notes). Raises as :func:`ensure_state_topics`.

    ``admin`` is the cluster's client where it is shared.
    """
    if not topics:
        return {}, []
    notes: list[str] = []
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return _brought_into_order(cluster, topics, timeout_seconds, notes, admin), notes
        except ClusterError as error:
            passing = isinstance(error, UnreachableCluster) or (
                isinstance(error.__cause__, KafkaException) and transient(error.__cause__)
            )
            if not passing or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def _brought_into_order(
    cluster: ClusterSettings,
    topics: Sequence[StateTopic],
    timeout_seconds: float,
    notes: list[str],
    admin: SharedAdmin | None,
) -> dict[str, int]:
    """Partitions by topic; what was done is added to ``notes``."""
    keeper = _Keeper(cluster, timeout_seconds, admin)
    # Twice: another flow may create a shared topic between the check and the creation.
    for _ in range(2):
        found_topics = keeper.find(topics)
        verdicts = [judge(topic, found_topics.get(topic.name), cluster.bootstrap_servers) for topic in topics]
        for verdict in verdicts:
            if isinstance(verdict, Refuse):
                raise StateTopicInvalid(
                    f"state topic {verdict.topic.name} on cluster '{cluster.alias}' cannot be used: "
                    f"{verdict.reason}; fix it with: {verdict.command}"
                )
        missing = [verdict.topic for verdict in verdicts if isinstance(verdict, Create)]
        for verdict in verdicts:
            if isinstance(verdict, Repair):
                notes += [note for note in _repair(verdict, keeper, cluster) if note not in notes]
        if not missing:
            return {topic.name: found_topics[topic.name].partitions for topic in topics}
        keeper.create(missing, notes)
        keeper.await_leaders(missing)
    return {
        topic.name: found_topics[topic.name].partitions if topic.name in found_topics else topic.partitions
        for topic in topics
    }


class _Keeper:
    """Looks at the state topics of one cluster, and changes them."""

    def __init__(self, cluster: ClusterSettings, seconds: float, admin: SharedAdmin | None) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._shared = admin or SharedAdmin(cluster)
        self._links = self._shared.links

    def find(self, topics: Iterable[StateTopic]) -> dict[str, FoundTopic]:
        wanted = {topic.name: topic for topic in topics}
        described = self._describe(list(wanted))
        if not described:
            return {}
        settings = self._settings(described)
        out = {}
        for name, description in described.items():
            starts = None
            if wanted[name].precious and settings[name].get("cleanup.policy") != "compact":
                starts = _starts_at_zero(self._cluster, name, len(description.partitions))
            replicas = min((len(p.replicas) for p in description.partitions), default=0)
            out[name] = FoundTopic(len(description.partitions), replicas, settings[name], starts)
        return out

    def _settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Settings by topic. A broker may not know a topic yet that was just created through another one."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        deadline = time.monotonic() + _SETTLING_SECONDS
        while True:
            name = resources[0].name
            try:
                answers = self._links.describe_configs(resources, request_timeout=self._seconds)
                out: dict[str, dict[str, str]] = {}
                for resource, answer in answers.items():
                    name = resource.name
                    entries: dict[str, ConfigEntry] = answer.result()
                    out[name] = {key: str(entry.value) for key, entry in entries.items()}
                return out
            except KafkaException as error:
                found = kafka_error(error)
                unknown = found is not None and found.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                if not unknown or time.monotonic() > deadline:
                    needs = Right("DescribeConfigs", "topic", name)
                    raise self._error(f"describe the settings of state topic {name}", error, needs) from error
            time.sleep(_PAUSE_SECONDS)

    def _error(self, doing: str, error: KafkaException, needs: Right | None = None) -> SrmError:
        return cluster_error(self._cluster, doing, self._shared.explained(error), needs)

    def _describe(self, topics: list[str]) -> dict[str, TopicDescription]:
        """Those of ``topics`` that exist."""
        out = {}
        name = topics[0] if topics else ""
        try:
            answers = self._links.describe_topics(TopicCollection(topics), request_timeout=self._seconds)
            for name, answer in answers.items():
                try:
                    out[name] = answer.result()
                except KafkaException as error:
                    found = kafka_error(error)
                    if found is None or found.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        except KafkaException as error:
            needs = Right("Describe", "topic", name)
            raise self._error(f"describe state topic {name}", error, needs) from error
        return out

    def create(self, topics: Sequence[StateTopic], notes: list[str]) -> None:
        brokers = len(self._brokers())
        new = []
        for topic in topics:
            replicas = topic.replication_factor
            if replicas > brokers:
                notes.append(
                    f"state topic {topic.name} on cluster '{self._cluster.alias}' gets {brokers} replicas instead of "
                    f"{replicas}, because the cluster has no more brokers"
                )
                replicas = brokers
            new.append(
                NewTopic(
                    topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=replicas,
                    config=topic.settings,
                )
            )
        try:
            answers = self._shared.client.create_topics(
                new, operation_timeout=self._seconds, request_timeout=self._seconds
            )
            for name, answer in answers.items():
                try:
                    answer.result()
                    notes.append(f"created state topic {name} on cluster '{self._cluster.alias}'")
                except KafkaException as error:
                    found = kafka_error(error)
                    if found is None or found.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        needs = Right("Create", "topic", name)
                        raise self._error(f"create state topic {name}", error, needs) from error
        except KafkaException as error:
            raise self._error("create its state topics", error) from error

    def _brokers(self) -> list[int]:
        try:
            # With a name, so that the answer does not list every topic of the cluster.
            return list(self._links.list_topics(names.META_TOPIC, timeout=self._seconds).brokers)
        except KafkaException as error:
            raise self._error("list its brokers", error) from error

    def await_leaders(self, topics: Sequence[StateTopic]) -> None:
        deadline = time.monotonic() + _LEADERS_SECONDS
        wanted = [topic.name for topic in topics]
        while True:
            described = self._describe(wanted)
            led = [
                name
                for name, description in described.items()
                if description.partitions and all(p.leader is not None for p in description.partitions)
            ]
            if len(led) == len(wanted):
                return
            if time.monotonic() > deadline:
                missing = ", ".join(sorted(set(wanted) - set(led)))
                raise ClusterError(
                    f"state topics {missing} on cluster '{self._cluster.alias}' have no leaders "
                    f"{_LEADERS_SECONDS:.0f} s after their creation; check its brokers"
                )
            time.sleep(0.05)

    def alter(self, topic: StateTopic, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
        try:
            for answer in self._shared.client.incremental_alter_configs(
                [resource], request_timeout=self._seconds
            ).values():
                answer.result()
        except KafkaException as error:
            needs = Right("AlterConfigs", "topic", topic.name)
            doing = f"alter the settings of state topic {topic.name}"
            raise self._error(doing, error, needs) from error


def _repair(repair: Repair, keeper: _Keeper, cluster: ClusterSettings) -> list[str]:
    notes = []
    if repair.settings:
        keeper.alter(repair.topic, repair.settings)
        notes.append(_repaired(repair.topic, repair.settings, cluster))
    if repair.wanted:
        try:
            keeper.alter(repair.topic, repair.wanted)
            notes.append(_repaired(repair.topic, repair.wanted, cluster))
        except ClusterError as error:
            notes.append(
                f"state topic {repair.topic.name} takes longer to read than necessary: {error}; set it with: "
                f"{alter_command(repair.topic, cluster.bootstrap_servers, repair.wanted)}"
            )
    return notes


def _starts_at_zero(cluster: ClusterSettings, topic: str, partitions: int) -> bool:
    with StateReader(cluster) as reader:
        return not any(reader.offsets(topic, range(partitions), EARLIEST).values())


def _repaired(topic: StateTopic, settings: Mapping[str, str], cluster: ClusterSettings) -> str:
    said = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"set {said} on state topic {topic.name} of cluster '{cluster.alias}'"
