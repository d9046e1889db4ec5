"""Read what is recorded on a flow's clusters, and decide about its topics with it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import policy_name
from srm_common.domain.topics.selection import TopicDecision, select_topics
from srm_common.domain.topics.topic_records import Knowledge, TopicRecords, new_bindings
from srm_common.errors import AccessDenied, ConfigError, SrmError, StateError
from srm_common.kafka.admin.cluster_admin import ClusterTopics
from srm_common.kafka.state.topic_registry import TopicRegistry

#: A third cluster is asked for a single decision; the flow's own two are what a run depends on.
_OTHERS_SECONDS = 5.0
_LISTED = 20


@dataclass(frozen=True)
class Registries:
    """The records of both clusters of a flow, being read."""

    source: Future[TopicRecords | str]
    target: Future[TopicRecords]

    @classmethod
    def fetch(cls, flow: FlowSettings, pool: ThreadPoolExecutor) -> Registries:
        return cls(pool.submit(_readable, flow.source), pool.submit(_read, flow.target))

    def knowledge(self, flow: FlowSettings, here: ClusterTopics, there: ClusterTopics) -> Knowledge:
        """What is known with them.

        Raises:
            ConfigError: an alias means another cluster than before.
            StateError, AccessDenied, UnreachableCluster: the target's cannot be read. Without those of the source a
                flow continues by what else is known.
        """
        found = self.source.result()
        records = {flow.name.target: self.target.result()}
        unreadable = {}
        if isinstance(found, str):
            unreadable[flow.name.source] = found
        else:
            records[flow.name.source] = found
        knowledge = Knowledge(
            here.cluster_id, there.cluster_id, records, unreadable, there.partitions.keys(), int(time.time() * 1000)
        )
        new_bindings(flow, knowledge)
        return knowledge


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


def _read(cluster: ClusterSettings, timeout_seconds: float = 30.0) -> TopicRecords:
    with TopicRegistry(cluster, timeout_seconds=timeout_seconds) as registry:
        return registry.read()


def _readable(cluster: ClusterSettings) -> TopicRecords | str:
    try:
        return _read(cluster)
    except (AccessDenied, StateError) as error:
        return str(error)


def _others(cluster: ClusterSettings | None) -> TopicRecords | str:
    if cluster is None:
        return "the file has no flow of it"
    try:
        return _read(cluster, _OTHERS_SECONDS)
    except SrmError as error:
        return str(error)
