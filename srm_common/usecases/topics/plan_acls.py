"""Compare the bindings on a flow's topics with those on their copies. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from srm_common.domain.access.acl_changes import (
    NAME_IT,
    CreateAcls,
    DeleteAcls,
    UnknownAcls,
    acl_actions,
    first_binding_locks_out,
    other_writers,
    reconcile,
)
from srm_common.domain.access.acl_rules import Copies, wanted_acls
from srm_common.domain.access.acls import AclBinding, Permission
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.principals import login_principal
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.errors import AccessDenied
from srm_common.kafka.state.acl_record import read_acl_record
from srm_common.usecases.flows.flow_clusters import FlowClusters

#: A broker setting by which a topic is open to everyone until its first binding is created.
OPEN_UNTIL_FIRST = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True)
class AclPlan:
    """Actions and notices, to be put into the flow's plan."""

    actions: tuple[CreateAcls | DeleteAcls | UnknownAcls, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class AclView:
    """Bindings on topics of source and target (None: no authorizer), and which of them the flow made. ``refused`` is
    a sentence about a cluster that does not show its bindings."""

    source: frozenset[AclBinding] | None = frozenset()
    target: frozenset[AclBinding] | None = frozenset()
    ours: frozenset[AclBinding] = frozenset()
    refused: str | None = None


def read_acls(clusters: FlowClusters) -> AclView:
    """All bindings of both clusters, by one request each.

    Raises:
        UnreachableCluster, ClusterError, StateError: one of the clusters cannot be looked at.
    """
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="srm-acls") as pool:
        source = pool.submit(clusters.source.acls.topic_bindings)
        target = pool.submit(clusters.target.acls.topic_bindings)
        record = pool.submit(read_acl_record, clusters.flow, clusters.state)
        try:
            return AclView(source.result(), target.result(), record.result())
        except AccessDenied as error:
            return AclView(refused=f"{error}, or set sync.topic.acls.enabled = false")


def copies_of(
    flow: FlowSettings,
    accepted: Iterable[TopicDecision],
    records: Iterable[TopicRecord],
    on_target: Collection[str],
) -> Copies:
    """What the flow copies, and what it copied and is still there: its readers stay while the source has them."""
    former = {
        one.upstream_topic: one.downstream_topic
        for one in records
        if one.state is not TopicState.CUT and one.downstream_topic in on_target
    }
    topics = {one.topic: one.remote_topic for one in accepted if one.remote_topic is not None}
    return Copies.of(flow, {**former, **topics}, on_target)


def plan_acls(flow: FlowSettings, view: AclView, copies: Copies, broker_settings: Mapping[str, str | None]) -> AclPlan:
    """What has to change so that readers of the source, and no others, may read the copies.

    Args:
        broker_settings: of a broker of the target, as far as they can be seen.
    """
    if view.refused is not None:
        return AclPlan((UnknownAcls(flow.name.target, view.refused),))
    here, there = view.source, view.target
    without = [cluster.alias for cluster, found in ((flow.source, here), (flow.target, there)) if found is None]
    if here is None or there is None:
        who = f"{without[0]} has" if len(without) == 1 else f"{' and '.join(without)} have"
        return AclPlan(notices=(f"no ACLs are synced: {who} no authorizer",))
    replicators = replicator_principals(flow)
    wanted = wanted_acls(here, copies, replicators, source=flow.name.source)
    downstream = set(copies.topics.values())
    notices = [*wanted.notices, *other_writers(there, downstream, replicators, flow.name.target)]
    difference = reconcile(wanted.bindings, there, view.ours)
    if OPEN_UNTIL_FIRST in broker_settings and broker_settings[OPEN_UNTIL_FIRST] != "false":
        locked = first_binding_locks_out(difference.create, there, downstream, replicators)
        if locked is not None:
            return AclPlan(notices=(*notices, _lock_out(flow, locked, replicators)))
    if not replicators and any(one.permission is Permission.DENY for one in difference.create):
        notices.append(
            f"the replicator's principal on {flow.name.target} is unknown; {NAME_IT}, so that it is not denied"
        )
    return AclPlan(acl_actions(flow.name.target, difference), tuple(notices))


def replicator_principals(flow: FlowSettings) -> frozenset[str]:
    """By which principals the replicator writes to the target; empty when neither the file nor the login tells."""
    written = frozenset(one.strip() for one in flow.acl_replicator_principals.split(";") if one.strip())
    if written:
        return written
    found = login_principal(flow.target)
    return frozenset() if found is None else frozenset({found})


def _lock_out(flow: FlowSettings, topic: str, replicators: Collection[str]) -> str:
    who = min(replicators, default="'User:...'")
    return (
        f"no ACLs are synced: the brokers of {flow.name.target} set {OPEN_UNTIL_FIRST}, so that the first binding on "
        f"{topic} would shut the replicator out; grant it WRITE on the copies first (kafka-acls.sh --add --topic "
        f"{topic} --operation Write --allow-principal {who})"
    )
