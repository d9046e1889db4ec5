"""State topics of one cluster: what they are like, their creation, and changes of their settings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from srm_common.domain.amount import counted
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import names
from srm_common.domain.flow.principals import Right
from srm_common.domain.topics.refused_settings import conceded
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.state_topics import FoundTopic, Repair, StateTopic, alter_command, created_text, price
from srm_common.errors import AccessDenied, ClusterError, SrmError
from srm_common.kafka.client.faults import cluster_error, is_too_much, kafka_error, refuses_settings
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

_LEADERS_SECONDS = 120.0
_SETTLING_SECONDS = 15.0
_PAUSE_SECONDS = 0.2


class StateTopicAdmin:
    """Looks at the state topics of one cluster, creates them, and changes their settings.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
    """

    def __init__(self, cluster: ClusterSettings, seconds: float, admin: SharedAdmin | None) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._shared = admin or SharedAdmin(cluster)
        self._links = self._shared.links
        #: What the cluster has refused topics that were created here.
        self._refused: dict[str, frozenset[str]] = {}

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
                    out[name] = {key: entry.value for key, entry in entries.items() if entry.value is not None}
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
        """Create ``topics``, each with those of its wishes that the cluster takes, and with fewer replicas if it has
        no brokers for more; ``notes`` get a sentence about each."""
        given = {topic.name: topic.wishes for topic in topics}
        refusals: dict[str, str] = {}
        replicas = {topic.name: topic.replication_factor for topic in topics}
        brokers: Brokers | None = None
        waiting = list(topics)
        while waiting:
            faults = self._create(
                NewTopic(
                    topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=replicas[topic.name],
                    config={**topic.needs, **given[topic.name]},
                )
                for topic in waiting
            )
            again = []
            for topic in waiting:
                name, error = topic.name, faults[topic.name]
                fault = None if error is None else kafka_error(error)
                if error is None:
                    notes.append(created_text(topic, self._cluster.alias, given[name], refusals.get(name, "")))
                    if replicas[name] != topic.replication_factor:
                        notes.append(self._lowered(topic, replicas[name]))
                elif fault is not None and refuses_settings(fault) and given[name]:
                    refusals[name] = f"{fault.str()} ({fault.name()})"
                    given[name] = conceded(given[name], refusals[name])
                    again.append(topic)
                elif fault is not None and fault.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                    brokers = brokers or self._brokers()
                    fewer = [one for one in brokers.attempts(topic.replication_factor) if one < replicas[name]]
                    if not fewer:
                        raise self._too_few_brokers(topic, error, brokers) from error
                    replicas[name] = fewer[0]
                    again.append(topic)
                elif fault is not None and (why := _forbidden(fault)):
                    raise AccessDenied(
                        f"cluster '{self._cluster.alias}' ({self._cluster.bootstrap_servers}) refused to create state "
                        f"topic {name}: {why}"
                    ) from error
                elif fault is None or fault.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._error(f"create state topic {name}", error, Right("Create", "topic", name)) from error
            waiting = again
        for topic in topics:
            lacking = [key for key, value in topic.wishes.items() if given[topic.name].get(key) != value]
            self._refused[topic.name] = frozenset(lacking)

    def _create(self, topics: Iterable[NewTopic]) -> dict[str, KafkaException | None]:
        """The error of each topic, None where it was created."""
        try:
            answers = self._shared.client.create_topics(
                list(topics), operation_timeout=self._seconds, request_timeout=self._seconds
            )
        except KafkaException as error:
            raise self._error("create its state topics", error) from error
        faults: dict[str, KafkaException | None] = dict.fromkeys(answers)
        for name, answer in answers.items():
            try:
                answer.result()
            except KafkaException as error:
                faults[name] = error
        return faults

    def _too_few_brokers(self, topic: StateTopic, error: KafkaException, brokers: Brokers) -> ClusterError:
        refusal = str(self._error(f"create state topic {topic.name}", error))
        if brokers.missing:
            refusal += (
                f"; {brokers.absence()}: run again when all brokers are up; if some are gone for good, move the "
                "replicas that they held to others, or configure fewer replicas"
            )
        return ClusterError(refusal)

    def _lowered(self, topic: StateTopic, replicas: int) -> str:
        return (
            f"state topic {topic.name} on cluster '{self._cluster.alias}' has {counted(replicas, 'replica')} instead "
            f"of {topic.replication_factor}, because the cluster has too few brokers for more"
        )

    def few_replicas(self, topics: Iterable[StateTopic], found: Mapping[str, FoundTopic]) -> list[str]:
        """A sentence about those that have fewer replicas than they are to have, where there are brokers for more."""
        fewer = [
            one for one in topics if one.name in found and found[one.name].replication_factor < one.replication_factor
        ]
        if not fewer:
            return []
        try:
            # With a name, so that the answer does not list every topic of the cluster.
            alive = len(self._links.list_topics(names.META_TOPIC, timeout=self._seconds).brokers)
        except KafkaException as error:
            raise self._error("list its brokers", error) from error
        few = [
            f"{one.name} ({has} instead of {one.replication_factor})"
            for one in fewer
            if (has := found[one.name].replication_factor) < min(alive, one.replication_factor)
        ]
        if not few:
            return []
        return [
            f"state topics on cluster '{self._cluster.alias}' have fewer replicas than configured: {', '.join(few)}; "
            "kafka-reassign-partitions.sh adds some"
        ]

    def _brokers(self) -> Brokers:
        try:
            answer = self._links.list_topics(timeout=self._seconds)
        except KafkaException as error:
            raise self._error("list its brokers", error) from error
        partitions = (one for topic in answer.topics.values() for one in topic.partitions.values())
        return Brokers.of(answer.brokers, {node for one in partitions for node in one.replicas})

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

    def repair(self, repair: Repair) -> list[str]:
        """Set what a topic needs, and what else the cluster takes; what was set and what was not, as sentences."""
        notes = []
        topic = repair.topic
        if repair.settings:
            self._alter(topic, repair.settings)
            notes.append(self._changed(topic, repair.settings))
        # What was refused a moment ago is not asked for again.
        wanted = {key: value for key, value in repair.wanted.items() if key not in self._refused.get(topic.name, ())}
        given, refusal = wanted, ""
        while given:
            try:
                self._alter(topic, given)
                notes.append(self._changed(topic, given))
                break
            except ClusterError as error:
                refusal = str(error)
                fault = kafka_error(error.__cause__) if isinstance(error.__cause__, KafkaException) else None
                refused = fault is not None and refuses_settings(fault)
                given = conceded(given, refusal) if refused else {}
        lacking = {key: value for key, value in wanted.items() if key not in given}
        if lacking:
            command = alter_command(topic, self._cluster.bootstrap_servers, lacking)
            notes.append(f"state topic {topic.name} {price(lacking)}: {refusal}; set it with: {command}")
        return notes

    def _changed(self, topic: StateTopic, settings: Mapping[str, str]) -> str:
        said = ", ".join(f"{name}={value}" for name, value in settings.items())
        return f"set {said} on state topic {topic.name} of cluster '{self._cluster.alias}'"

    def _alter(self, topic: StateTopic, settings: Mapping[str, str]) -> None:
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


def _forbidden(fault: KafkaError) -> str:
    """Why the cluster does not take a topic of this name, whatever its settings are; empty for other faults."""
    said = f"{fault.str()} ({fault.name()})"
    if fault.code() == KafkaError.TOPIC_EXCEPTION:
        return f"the name is not allowed there: {said}"
    if fault.code() == KafkaError.POLICY_VIOLATION and not is_too_much(fault):
        return f"{said}; allow it in the policy of its brokers (create.topic.policy.class.name)"
    return ""


def _starts_at_zero(cluster: ClusterSettings, topic: str, partitions: int) -> bool:
    with StateReader(cluster) as reader:
        return not any(reader.offsets(topic, range(partitions), EARLIEST).values())
