"""Reads the records on a flow's clusters, and decides about its topics with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import policy_name
from srm_common.domain.topics.copied_topics import CopiedTopics
from srm_common.domain.topics.lifecycle import TopicIds
from srm_common.domain.topics.selection import TopicDecision, select_topics
from srm_common.domain.topics.topic_records import Knowledge, TopicRecords, new_bindings
from srm_common.errors import AccessDenied, ConfigError, SrmError, StateError
from srm_common.kafka.admin.cluster_admin import ClusterTopics
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.usecases.flows.flow_clusters import FlowClusters

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
        found = at_source.result()
        records = {flow.name.target: at_target.result()}
        unreadable = {}
        if isinstance(found, str):
            unreadable[flow.name.source] = found
        else:
            records[flow.name.source] = found
        knowledge = Knowledge(
            source.cluster_id, target.cluster_id, records, unreadable, target.partitions.keys(), clusters.now_ms()
        )
        new_bindings(flow, knowledge)
        return cls(source, target, knowledge)

    @classmethod
    def decided(cls, clusters: FlowClusters, pool: ThreadPoolExecutor) -> FlowTopics:
        """The same, with the decisions; other clusters of the file are asked where one cannot be made without."""
        found = cls.fetch(clusters, pool)
        decisions, knowledge = decide(clusters.flow, found.source.partitions, found.knowledge)
        return replace(found, decisions=decisions, knowledge=knowledge)

    def copied(self, flow: FlowSettings) -> CopiedTopics:
        """What the flow copies, by the records on its target."""
        return CopiedTopics(str(flow.name), self.knowledge.records[flow.name.target])

    def ids(self, clusters: FlowClusters, pool: ThreadPoolExecutor) -> TopicIds:
        """The ids of topics that are accepted or recorded, and of their copies, as far as these exist."""
        records = self.copied(clusters.flow).records
        accepted = {
            one.topic: one.remote_topic for one in self.decisions if one.accepted and one.remote_topic is not None
        }
        copies = {*accepted.values(), *(one.downstream_topic for one in records.values())}
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
    """The decision on every topic; other clusters of the file are asked where one cannot be made without."""
    decisions = select_topics(flow, topics, knowledge)
    while asked := {alias for decision in decisions for alias in decision.ask}:
        knowledge = with_clusters(flow, knowledge, asked)
        decisions = select_topics(flow, topics, knowledge)
    return decisions, knowledge


def with_clusters(flow: FlowSettings, knowledge: Knowledge, aliases: Iterable[str]) -> Knowledge:
    """The same, with the records of further clusters of the file; one that cannot be read is noted with its reason."""
    clusters = {one.alias: one for flows in flow.graph for one in (flows.source, flows.target)}
    wanted = sorted(set(aliases) - knowledge.records.keys() - knowledge.unreadable.keys())
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="srm-records") as pool:
        found = dict(zip(wanted, pool.map(_others, [clusters.get(alias) for alias in wanted]), strict=True))
    return replace(
        knowledge,
        records={**knowledge.records, **{alias: one for alias, one in found.items() if isinstance(one, TopicRecords)}},
        unreadable={**knowledge.unreadable, **{alias: one for alias, one in found.items() if isinstance(one, str)}},
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


def _others(cluster: ClusterSettings | None) -> TopicRecords | str:
    if cluster is None:
        return "the file has no flow of it"
    try:
        with TopicRegistry(cluster, timeout_seconds=_OTHERS_SECONDS) as registry:
            return registry.read()
    except SrmError as error:
        return str(error)
