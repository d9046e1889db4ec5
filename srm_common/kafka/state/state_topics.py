"""Creates and checks the topics that hold a flow's state, before anything is read from or written to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.topics.state_topics import Create, Refuse, Repair, StateTopic, judge, state_topics
from srm_common.errors import AccessDenied, ClusterError, StateTopicInvalid, UnreachableCluster
from srm_common.kafka.client.faults import transient
from srm_common.kafka.client.librdkafka import KafkaException
from srm_common.kafka.client.links.shared_admin import SharedAdmin
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topic_admin import StateTopicAdmin

_REQUEST_SECONDS = 30.0
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
    """Create what is missing, repair what can be, refuse the rest. A topic does without settings that the cluster
    refuses, as far as it can: a note says which, and what that means.

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
        notes.append(f"no offset syncs on '{flow.source.alias}': {error}, or set offset-syncs.topic.location = target")
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
    at = StateTopicAdmin(cluster, timeout_seconds, admin)
    # Twice: another flow may create a shared topic between the check and the creation.
    for _ in range(2):
        found_topics = at.find(topics)
        verdicts = [judge(topic, found_topics.get(topic.name), cluster.bootstrap_servers) for topic in topics]
        for verdict in verdicts:
            if isinstance(verdict, Refuse):
                restore = f", then restore what was deleted, before the flow copies it again, with: {verdict.then}"
                raise StateTopicInvalid(
                    f"state topic {verdict.topic.name} on cluster '{cluster.alias}' cannot be used: "
                    f"{verdict.reason}; fix it with: {verdict.command}{restore if verdict.then else ''}"
                )
        missing = [verdict.topic for verdict in verdicts if isinstance(verdict, Create)]
        for verdict in verdicts:
            if isinstance(verdict, Repair):
                notes += [note for note in at.repair(verdict) if note not in notes]
        notes += [note for note in at.few_replicas(topics, found_topics) if note not in notes]
        if not missing:
            return {topic.name: found_topics[topic.name].partitions for topic in topics}
        at.create(missing, notes)
        at.await_leaders(missing)
    return {
        topic.name: found_topics[topic.name].partitions if topic.name in found_topics else topic.partitions
        for topic in topics
    }
