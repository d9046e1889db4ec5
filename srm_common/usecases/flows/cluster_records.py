"""Reads the records on a flow's clusters, decides about its topics with them, and finds those that it copies at this
moment: accepted, and present on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from srm_common.domain.cluster import MAX_MESSAGE_BYTES, UNLIMITED_MESSAGE_BYTES, ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import has_heartbeats
from srm_common.domain.policy import policy_name
from srm_common.domain.topic_id import is_another_topic
from srm_common.domain.topics.lifecycle import LOSSES, TARGET_DELETED, TopicIds, settle
from srm_common.domain.topics.selection import (
    RECORD_UNREADABLE,
    CopiedTopic,
    CopiedTopics,
    TopicDecision,
    select_topics,
)
from srm_common.domain.topics.topic_records import Knowledge, TopicRecords, new_bindings
from srm_common.domain.topics.topic_settings import TIMESTAMP_TYPE, TopicSetting
from srm_common.errors import AccessDenied, ConfigError, SrmError, StateError
from srm_common.kafka.admin.cluster_admin import ClusterTopics
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.kept_records import with_kept
from srm_common.usecases.flows.open_cluster import OpenCluster

#: A third cluster is asked for a single decision; the flow's own two are what a run depends on.
_OTHERS_SECONDS = 5.0
_LISTED = 20


@dataclass(frozen=True)
class FlowTopics:
    """The topics of both clusters of a flow with what is recorded of them, as both were asked at one time.

    ``decisions`` are those on every topic of the source, once they were made.
    """

    source: ClusterTopics
    target: ClusterTopics
    knowledge: Knowledge
    decisions: Sequence[TopicDecision] = ()

    @classmethod
    def fetch(cls, clusters: FlowClusters, pool: ThreadPoolExecutor) -> FlowTopics:
        """Query both clusters, in threads of ``pool``.

        Raises:
            ConfigError: an alias means another cluster than before.
            StateError, AccessDenied, UnreachableCluster, ClusterError: one of the clusters does not list its topics, or
                the target's records cannot be read. Without those of the source a flow continues by what else is known.
        """
        flow = clusters.flow
        at_source = pool.submit(_readable, clusters.source.registry)
        at_target = pool.submit(clusters.target.registry.read)
        source_topics = pool.submit(clusters.source.admin.topics)
        target_topics = pool.submit(clusters.target.admin.topics)
        source, target = source_topics.result(), target_topics.result()
        topic_records = at_source.result()
        records = {flow.name.target: at_target.result()}
        unreadable = {}
        if isinstance(topic_records, str):
            unreadable[flow.name.source] = topic_records
        else:
            records[flow.name.source] = topic_records
        knowledge = Knowledge(
            source.cluster_id, target.cluster_id, records, unreadable, target.partitions.keys(), clusters.now_ms()
        )
        new_bindings(flow, knowledge)
        return cls(source, target, knowledge)

    @classmethod
    def decided(cls, clusters: FlowClusters, pool: ThreadPoolExecutor) -> FlowTopics:
        """The same, with the decisions; other clusters of the file are queried if a decision depends on them.

        What seems to be new is decided on again with the records that were lost, should there be any.
        """
        flow, topics = clusters.flow, cls.fetch(clusters, pool)
        decisions, knowledge = decide(flow, topics.source.partitions, topics.knowledge)
        records = topics.copied(flow).records
        unreadable = any(known.unreadable for known in knowledge.records.values())
        if unreadable or any(decision.accepted and decision.topic not in records for decision in decisions):
            topics = topics.with_lost(clusters)
            if unreadable or any(known.restored for known in topics.knowledge.records.values()):
                decisions, knowledge = decide(flow, topics.source.partitions, topics.knowledge)
        return replace(topics, decisions=decisions, knowledge=knowledge)

    def with_lost(self, clusters: FlowClusters) -> FlowTopics:
        """The same, with the records that the two clusters have lost and the flows' own state still has.

        Raises:
            UnreachableCluster, ClusterError: as the clusters answer.
        """
        records = dict(self.knowledge.records)
        for cluster, there in ((clusters.source, self.source), (clusters.target, self.target)):
            if cluster.alias in records:
                records[cluster.alias] = with_kept(cluster, there.partitions, records[cluster.alias])
        return replace(self, knowledge=replace(self.knowledge, records=records))

    def copied(self, flow: FlowSettings) -> CopiedTopics:
        """What the flow copies, by the records on its target that can be read."""
        return CopiedTopics(str(flow.name), self.knowledge.records[flow.name.target].readable)

    def ids(self, clusters: FlowClusters, pool: ThreadPoolExecutor) -> TopicIds:
        """The ids of topics that are accepted or recorded, and of their copies, as far as these exist."""
        records = self.copied(clusters.flow).records
        accepted = {
            decision.topic: decision.remote_topic
            for decision in self.decisions
            if decision.accepted and decision.remote_topic is not None
        }
        copies = {*accepted.values(), *(record.downstream_topic for record in records.values())}
        # Only what is there: of a name without a topic a broker may say that it must not be seen.
        upstream = pool.submit(
            clusters.source.admin.describe_topics, sorted({*accepted, *records} & self.source.partitions.keys())
        )
        downstream = pool.submit(clusters.target.admin.describe_topics, sorted(copies & self.target.partitions.keys()))
        return TopicIds(
            {name: facts.topic_id for name, facts in upstream.result().items()},
            {name: facts.topic_id for name, facts in downstream.result().items()},
        )


def decide(flow: FlowSettings, topics: Collection[str], knowledge: Knowledge) -> tuple[list[TopicDecision], Knowledge]:
    """The decision on every topic; other clusters of the file are queried if a decision depends on them."""
    decisions = select_topics(flow, topics, knowledge)
    while asked := {alias for decision in decisions for alias in decision.ask}:
        knowledge = with_clusters(flow, knowledge, asked)
        decisions = select_topics(flow, topics, knowledge)
    return decisions, knowledge


def with_clusters(flow: FlowSettings, knowledge: Knowledge, aliases: Iterable[str]) -> Knowledge:
    """The same, with the records of further clusters of the file; one that cannot be read is noted with its reason."""
    wanted = sorted(set(aliases) - knowledge.records.keys() - knowledge.unreadable.keys())
    # Not in the threads: they need Airflow's connections.
    reached = [_reached(flow, alias) for alias in wanted]
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="srm-records") as pool:
        records = dict(zip(wanted, pool.map(_others, reached), strict=True))
    return replace(
        knowledge,
        records={
            **knowledge.records,
            **{alias: one for alias, one in records.items() if isinstance(one, TopicRecords)},
        },
        unreadable={**knowledge.unreadable, **{alias: one for alias, one in records.items() if isinstance(one, str)}},
    )


def refuse_switch(flow: FlowSettings, decisions: Iterable[TopicDecision]) -> None:
    """Raises :class:`ConfigError` with the topics whose copies have other names by the policy that made them."""
    renamed = [decision for decision in decisions if decision.code == "policy_switch"]
    if not renamed:
        return
    listed = ", ".join(decision.topic for decision in renamed[:_LISTED])
    more = f" and {len(renamed) - _LISTED} more" if len(renamed) > _LISTED else ""
    raise ConfigError(
        f"{policy_name(flow.policy)} renames {len(renamed)} topics that flow {flow.name} copies already: "
        f"{listed}{more} ({renamed[0].topic}: {renamed[0].reason}); their present copies would stay as they are"
    )


def _readable(registry: TopicRegistry) -> TopicRecords | str:
    try:
        return registry.read()
    except (AccessDenied, StateError) as error:
        return str(error)


def _reached(flow: FlowSettings, alias: str) -> ClusterSettings | str:
    """How to reach a cluster of the file, or why that is not known."""
    try:
        return flow.cluster(alias) or "the file has no flow of it"
    except ConfigError as error:
        return str(error)


def _others(cluster: ClusterSettings | str) -> TopicRecords | str:
    if isinstance(cluster, str):
        return cluster
    try:
        with OpenCluster(cluster, request_seconds=_OTHERS_SECONDS) as opened:
            return with_kept(opened, opened.admin.topics().partitions, opened.registry.read())
    except SrmError as error:
        return str(error)


_SETTLING_SECONDS = 1.0
_LIMIT, _POLICY = "max.message.bytes", "cleanup.policy"
#: What a run has to know of its copies: it asks again every half minute, so it asks for nothing else.
_USED = (TIMESTAMP_TYPE, _LIMIT, _POLICY)


def replicated_topics(
    flow: FlowSettings | FlowClusters, lost: Callable[[TopicDecision], None] = lambda decision: None
) -> list[CopiedTopic]:
    """The accepted and recorded topics that exist on both sides, sorted by upstream name.

    A topic without a record is left to the next refresh, which records it before anything is copied.

    Args:
        lost: called for each topic that is left out because its copy was deleted, or re-created by others, or because
            what is recorded of it cannot be read.

    Raises:
        ConfigError: an alias means another cluster than before, or a policy renames what is copied.
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    with clusters_of(flow) as clusters:
        return _replicated(clusters, lost)


def _replicated(clusters: FlowClusters, lost: Callable[[TopicDecision], None]) -> list[CopiedTopic]:
    flow, source, target = clusters.flow, clusters.source.admin, clusters.target.admin
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-topics") as pool:
        topics = FlowTopics.decided(clusters, pool)
        refuse_switch(flow, topics.decisions)
        copied, there = topics.copied(flow), topics.target
        records = copied.records
        recorded = [decision for decision in topics.decisions if decision.accepted and decision.topic in records]
        pairs = [
            (decision.topic, decision.remote_topic)
            for decision in recorded
            if decision.remote_topic is not None
            and decision.remote_topic in there.partitions
            and copied.copied_in_runs(decision.topic, decision.remote_topic)
        ]
        upstream = pool.submit(source.describe_topics, [pair[0] for pair in pairs])
        remotes = {
            topic_decision.remote_topic for topic_decision in recorded if topic_decision.remote_topic is not None
        }
        downstream = pool.submit(target.describe_topics, sorted(remotes & there.partitions.keys()))
        settings = pool.submit(target.describe_settings, [pair[1] for pair in pairs], _USED)
        ours, theirs, described = upstream.result(), downstream.result(), settings.result()
    ids = TopicIds(target={name: facts.topic_id for name, facts in theirs.items()})
    missing = [
        settled.decision
        for settled in settle(
            flow, recorded, {topic_decision.topic: records[topic_decision.topic] for topic_decision in recorded}, ids
        )
        if settled.decision.code in LOSSES
    ]
    missing += [decision for decision in topics.decisions if decision.code == RECORD_UNREADABLE]
    if any(topic_decision.code == TARGET_DELETED for topic_decision in missing):
        # A broker may not know yet of a topic that another one has made.
        time.sleep(_SETTLING_SECONDS)
        there_now = target.topics().partitions
        missing = [
            topic_decision
            for topic_decision in missing
            if topic_decision.code != TARGET_DELETED or topic_decision.remote_topic not in there_now
        ]
    for topic_decision in missing:
        lost(topic_decision)
    mappings = []
    for topic, remote in pairs:
        # A topic that was deleted between the requests is gone from the answer, and looked at again next time.
        unreadable = remote in described.faults
        if topic not in ours or remote not in theirs or not (unreadable or remote in described.found):
            continue
        if is_another_topic(records[topic].downstream_topic_id, theirs[remote].topic_id):
            continue  # another topic than the record's
        own = described.found.get(remote, {})
        kind = own.get(TIMESTAMP_TYPE)
        if kind is not None and kind.value == "LogAppendTime":
            continue  # refused by the plan, which says why
        policy = own.get(_POLICY)
        mappings.append(
            CopiedTopic(
                topic,
                remote,
                min(ours[topic].partitions, theirs[remote].partitions),
                ours[topic].topic_id,
                theirs[remote].topic_id,
                UNLIMITED_MESSAGE_BYTES if unreadable else _limit(own.get(_LIMIT)),
                has_heartbeats(flow, topic),
                policy is not None and "compact" in (policy.value or ""),
                settings_known=not unreadable,
            )
        )
    return mappings


def _limit(setting: TopicSetting | None) -> int:
    return MAX_MESSAGE_BYTES if setting is None or setting.value is None else int(setting.value)
