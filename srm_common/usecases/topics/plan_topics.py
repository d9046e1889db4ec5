"""Query both clusters, decide about every topic, and plan. Changes nothing.

One metadata request to each side, the settings of accepted topics and of their copies in batches, and nothing per
topic in a loop: with nothing to change that is all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.flow.names import StateKey
from srm_common.domain.plans.plan import Plan
from srm_common.domain.plans.planning import SourceView, TargetView, make_plan
from srm_common.domain.runs.run_record import RunRecord, changed_transforms
from srm_common.domain.topics.actions import CreateTopic, Job, StartOver
from srm_common.domain.topics.lifecycle import Settled, TopicIds, restorable, settle, unlisted_copies
from srm_common.domain.topics.recording import plan_records
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alterations, RefreshMemory
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.state_topics import state_topics
from srm_common.domain.topics.topic_records import Knowledge, TopicRecord
from srm_common.domain.topics.topic_settings import target_abilities
from srm_common.errors import AccessDenied, ConfigError
from srm_common.kafka.admin.cluster_admin import ClusterAdmin, ClusterTopics, TopicsSettings
from srm_common.settings_files.user_classes import check_function, code_digest
from srm_common.usecases.flows.cluster_records import FlowTopics, refuse_switch
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.topics.acls import copies_of, plan_acls, read_acls
from srm_common.usecases.topics.lost_copies import doubtful_losses
from srm_common.usecases.topics.schemas import schema_changes

#: So many topics are asked which settings the target knows, where there is no copy yet.
_EXAMPLES = 20


def plan_topics(
    flow: FlowSettings | FlowClusters,
    *,
    due: frozenset[Job] = EVERYTHING,
    alterations: Alterations | None = None,
    restore: Mapping[str, OnDataLoss] | None = None,
) -> Plan:
    """What has to change on the target so that the flow can copy.

    Args:
        due: plan this only; all decisions are made in any case.
        alterations: earlier changes of settings; by default they are read from the flow's state.
        restore: what to do about single topics whose copies are lost, by topic or copy.

    Raises:
        ConfigError: an alias means another cluster than before, a policy renames what is copied,
            ``restore`` names what is not a topic of the flow, or the file of ``transforms.python`` has no such
            function.
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    with clusters_of(flow) as clusters:
        return _planned(clusters, due, alterations, restore)


def _planned(
    clusters: FlowClusters,
    due: frozenset[Job],
    alterations: Alterations | None,
    restore: Mapping[str, OnDataLoss] | None,
) -> Plan:
    flow, source, target = clusters.flow, clusters.source.admin, clusters.target.admin
    missing = _missing_function(flow)
    with ThreadPoolExecutor(max_workers=6, thread_name_prefix="srm-plan") as pool:
        remembered = (
            pool.submit(clusters.state.read_all, StateKey.REFRESH, StateKey.RUN) if alterations is None else None
        )
        acls = pool.submit(read_acls, clusters) if flow.sync_topic_acls and Job.ACLS in due else None
        schemas = pool.submit(schema_changes, clusters) if flow.sync_schemas and Job.SCHEMAS in due else None
        topics = FlowTopics.decided(clusters, pool)
        refuse_switch(flow, topics.decisions)
        here, there, records = topics.source, topics.target, topics.copied(flow).records
        ids = topics.ids(clusters, pool)
        restored = _restored(flow, records, restore)
        doubtful = doubtful_losses(clusters, unlisted_copies(topics.decisions, records, ids))
        settled = settle(flow, topics.decisions, records, ids, restored, doubtful)
        decisions = [one.decision for one in settled]
        accepted = [decision for decision in decisions if decision.accepted]
        described = [*(decision.remote_topic for decision in accepted), flow.dead_letter_topic]
        existing = [name for name in described if name is not None and name in there.partitions]
        source_settings = pool.submit(source.describe_settings, [decision.topic for decision in accepted])
        target_settings = pool.submit(_settings_there, clusters, there, existing)
        broker = pool.submit(_broker_settings, target, there)
        upstream, (downstream, known) = source_settings.result(), target_settings.result()
        state = {} if remembered is None else remembered.result()
        plan = make_plan(
            flow,
            decisions,
            SourceView(here.partitions, upstream.found, _sentences(upstream)),
            TargetView(
                there.partitions,
                downstream.found,
                Brokers.of(there.brokers, there.holders),
                target_abilities(broker.result(), known),
                there.replicas,
                _sentences(downstream),
            ),
            due=due,
            alterations=RefreshMemory.from_json(state.get(StateKey.REFRESH)).alterations if remembered else alterations,
        )
        if StateKey.RUN in state:
            function = code_digest(flow.transforms_python) if flow.transforms_python else None
            if changed := changed_transforms(flow, RunRecord.from_json(state[StateKey.RUN]), function):
                plan = plan.with_more((), [changed])
        if missing is not None:
            plan = plan.with_more((), [missing])
        plan = _recorded(flow, plan, settled, topics.knowledge, ids)
        plan = replace(_started_over(flow, plan, settled), restore=restored)
        # A new copy gets its bindings at once, whatever the interval says.
        if acls is not None or (
            flow.sync_topic_acls and any(isinstance(action, CreateTopic) for action in plan.actions)
        ):
            view = read_acls(clusters) if acls is None else acls.result()
            # A copy that may be there keeps its readers.
            on_target = there.partitions.keys() | doubtful.keys()
            found = copies_of(flow, plan.accepted, records.values(), on_target, here.partitions)
            changes = plan_acls(flow, view, found, broker.result())
            plan = plan.with_more(changes.actions, changes.notices)
        if schemas is not None:
            plan = plan.with_more(schemas.result())
        return replace(plan, source_cluster_id=here.cluster_id, target_cluster_id=there.cluster_id)


def _missing_function(flow: FlowSettings) -> str | None:
    """What to say if the flow's Python function is not installed here: it may be where slots run."""
    if not flow.transforms_python:
        return None
    try:
        missing = check_function(flow.transforms_python)
    except ConfigError as error:
        raise ConfigError(f"flow {flow.name} has transforms.python, and {error.reason}") from error
    return None if missing is None else f"flow {flow.name} has transforms.python, and {missing}"


def _recorded(flow: FlowSettings, plan: Plan, settled: Iterable[Settled], knowledge: Knowledge, ids: TopicIds) -> Plan:
    """The plan with the records of its topics in front: a copy has a record before it exists."""
    states = {one.decision.topic: one for one in settled}
    outcomes = (
        # A topic that the plan refused for its settings keeps the state that it had.
        (decision, one.state if decision.accepted == one.decision.accepted else None, one.reason)
        for decision in plan.decisions
        for one in (states[decision.topic],)
    )
    records = plan_records(flow, knowledge, outcomes, ids.source, ids.target)
    return replace(plan, actions=(*records, *plan.actions))


def _restored(
    flow: FlowSettings, records: Mapping[str, TopicRecord], restore: Mapping[str, OnDataLoss] | None
) -> dict[str, OnDataLoss]:
    try:
        return restorable(records, restore or {})
    except KeyError as error:
        raise ConfigError(
            f"{error.args[0]} is neither a topic that flow {flow.name} copies nor the copy of one"
        ) from None


def _started_over(flow: FlowSettings, plan: Plan, settled: Sequence[Settled]) -> Plan:
    """The plan with what has to be done and said first about lost copies. A topic that the plan refused for its
    settings gets no copy, and does not start over before it does."""
    accepted = {decision.topic for decision in plan.accepted}
    over = [
        StartOver(flow.name.target, one.decision.remote_topic, one.decision.topic, "its copy is lost")
        for one in settled
        if one.start_over and one.decision.remote_topic is not None and one.decision.topic in accepted
    ]
    notices = [one.notice for one in settled if one.notice is not None]
    return replace(plan, actions=(*over, *plan.actions), notices=(*notices, *plan.notices))


def decide_topics(flow: FlowSettings | FlowClusters) -> list[TopicDecision]:
    """The decision on every topic of the source, and on recorded ones that are gone.

    Raises:
        ConfigError: an alias means another cluster than before.
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    with clusters_of(flow) as clusters, ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-decide") as pool:
        topics = FlowTopics.decided(clusters, pool)
        ids = topics.ids(clusters, pool)
        return [
            settled.decision
            for settled in settle(clusters.flow, topics.decisions, topics.copied(clusters.flow).records, ids)
        ]


def _settings_there(
    clusters: FlowClusters, there: ClusterTopics, copies: Sequence[str]
) -> tuple[TopicsSettings, frozenset[str] | None]:
    """The settings of the copies, and which settings the target knows: any topic shows that. None where none may be
    described."""
    admin = clusters.target.admin
    described = found = admin.describe_settings(copies)
    if not found.found:
        # A topic may be visible and its settings not; those of the flow's own topics may be read.
        own = {topic.name for topic in state_topics(clusters.flow) if topic.location == "target"}
        others = sorted(there.partitions.keys() - set(copies), key=lambda name: (name not in own, name))
        found = admin.describe_settings(others[:_EXAMPLES])
    return described, next((frozenset(settings) for settings in found.found.values()), None)


def _sentences(settings: TopicsSettings) -> dict[str, str]:
    return {topic: str(fault) for topic, fault in settings.faults.items()}


def _broker_settings(target: ClusterAdmin, topics: ClusterTopics) -> dict[str, str | None]:
    try:
        return target.broker_settings(topics.brokers[0])
    except AccessDenied:
        # DescribeConfigs on the cluster is a right that replication does without: every setting is then spelled out.
        return {}
