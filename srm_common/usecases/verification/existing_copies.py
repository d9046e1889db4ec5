"""The copies of a flow that are there, and what of their settings decides how they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from srm_common.domain.flow.start_position import StartKind, StartRules
from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.topic_id import is_another_topic
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.unmapped_batches import CopyTraits
from srm_common.usecases.flows.flow_clusters import FlowClusters


@dataclass(frozen=True)
class ExistingCopy:
    """A copy that can be compared; ``upstream`` is the name at the source."""

    upstream: str
    name: str
    partitions: int
    traits: CopyTraits
    expires: bool
    same_times: bool


@dataclass(frozen=True)
class ExistingCopies:
    """``copies``, and which are ``gone`` or another topic now, with their names, by upstream name; the ``topic_ids`` of
    copies by theirs."""

    copies: Mapping[str, ExistingCopy]
    gone: Mapping[str, tuple[str, DifferenceKind]]
    topic_ids: Mapping[str, str]


def recorded_copies(clusters: FlowClusters, known: TopicRecords) -> dict[str, TopicRecord]:
    """Of the topics that the flow has copied, by their names at the source, also where the copy is gone."""
    of_flow = known.of_flow(clusters.flow.name)
    return {topic: record for topic, record in of_flow.items() if record.state is not TopicState.CLAIMED}


def without_copies(clusters: FlowClusters, topics: Iterable[str]) -> list[str]:
    """The expressions that no topic with a copy matches, by its name at the source.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    copied = recorded_copies(clusters, clusters.target.registry.read())
    return [text for text in topics if all(PatternList([text]).matching(topic) is None for topic in copied)]


def existing_copies(clusters: FlowClusters, known: TopicRecords, records: Mapping[str, TopicRecord]) -> ExistingCopies:
    """The copies of the topics in ``records``, in order; ``known`` has those of other flows, too.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    flow, admin = clusters.flow, clusters.target.admin
    wanted = sorted(
        {topic_record.downstream_topic for topic_record in records.values()} & admin.topics().partitions.keys()
    )
    facts, settings = admin.describe_topics(wanted), admin.topic_settings(wanted)
    rules = StartRules(flow.start_positions, flow.auto_offset_reset)
    copies: dict[str, ExistingCopy] = {}
    gone: dict[str, tuple[str, DifferenceKind]] = {}
    for topic, record in sorted(records.items()):
        name = record.downstream_topic
        if name not in facts or name not in settings:
            gone[topic] = name, DifferenceKind.DELETED
            continue
        if is_another_topic(record.downstream_topic_id, facts[name].topic_id):
            gone[topic] = name, DifferenceKind.RECREATED
            continue
        own = {key: one.value or "" for key, one in settings[name].items()}
        policy = own.get("cleanup.policy", "")
        traits = CopyTraits(
            compacted="compact" in policy,
            recompressed=own.get("compression.type", "producer") != "producer",
            shared=len(known.feeding(name)) > 1,
            both_ways=rules.of(topic)[0].kind is StartKind.OPPOSITE,
            exactly_once=flow.exactly_once,
        )
        same_times = own.get("message.timestamp.type") != "LogAppendTime"
        copies[topic] = ExistingCopy(topic, name, facts[name].partitions, traits, "delete" in policy, same_times)
    return ExistingCopies(copies, gone, {name: one.topic_id for name, one in facts.items() if one.topic_id})
