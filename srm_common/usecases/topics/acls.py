"""ACL bindings on a flow's topics and their copies: which of them the flow created, planning changes, and applying
them.

The record of the bindings that a flow created is in ``srm-flow-state.<source>.internal``. It is written before bindings
are created and after they are deleted, so that a crash in between leaves a record without a binding, and never a
binding without a record.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from srm_common.domain.access.acl_bindings import AclBinding, Permission
from srm_common.domain.access.acl_changes import (
    CreateAcls,
    DeleteAcls,
    UnknownAcls,
    acl_actions,
    first_binding_locks_out,
    other_writers,
    reconcile,
    replaced,
    revocations,
)
from srm_common.domain.access.copied_acls import Copies, wanted_acls, writers
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.flow.principals import login_principal
from srm_common.domain.topics.actions import Action, ActionResult
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.state_topics import flow_state_topic
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.errors import AccessDenied, ClusterError, CorruptRecord, SrmError, UnsupportedBroker
from srm_common.usecases.flows.flow_clusters import FlowClusters

_NO_DENY = "left as it is, because a DENY before it could not be created"
_NO_SUCCESSOR = "left as it is, because what takes its place could not be created"
#: A broker setting by which a topic is open to everyone until its first binding is created.
OPEN_UNTIL_FIRST = "allow.everyone.if.no.acl.found"


def read_acl_record(clusters: FlowClusters) -> frozenset[AclBinding]:
    """The bindings that the flow made, or was about to make.

    Raises:
        CorruptRecord: the record cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    flow = clusters.flow
    found = clusters.state.read(StateKey.ACLS)
    try:
        return frozenset(AclBinding.from_json(parts) for parts in (found or {}).get("bindings", ()))
    except (AttributeError, TypeError, ValueError) as error:
        raise CorruptRecord(
            f"'{StateKey.ACLS}' in {names.flow_state_topic(flow.name.source)} on cluster '{flow.target.alias}' cannot "
            f"be read; after a tombstone with that key the flow's bindings there count as created by others"
        ) from error


def write_acl_record(clusters: FlowClusters, bindings: Iterable[AclBinding]) -> None:
    """Replace the record; returns when all in-sync replicas have it. Creates the state topic where it is missing.

    Raises:
        StateTopicInvalid, UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    clusters.target.ensure([flow_state_topic(clusters.flow)])
    clusters.state.write(StateKey.ACLS, {"bindings": [binding.to_json() for binding in sorted(bindings)]})


@dataclass(frozen=True)
class AclPlan:
    """Actions and notices, to be put into the flow's plan."""

    actions: tuple[CreateAcls | DeleteAcls | UnknownAcls, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class AclView:
    """Bindings on topics of source and target (None: no authorizer), and which of them the flow made. ``refused`` is
    a sentence about a cluster that does not show its bindings, ``lacking`` about one that has no ACLs to show."""

    source: frozenset[AclBinding] | None = frozenset()
    target: frozenset[AclBinding] | None = frozenset()
    ours: frozenset[AclBinding] = frozenset()
    refused: str | None = None
    lacking: str | None = None


def read_acls(clusters: FlowClusters) -> AclView:
    """All bindings of both clusters, by one request each. That a cluster does not describe them keeps no topic from
    being planned: the view says why.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: the flow's record on the target cannot be read.
    """
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="srm-acls") as pool:
        source = pool.submit(clusters.source.acls.topic_bindings)
        target = pool.submit(clusters.target.acls.topic_bindings)
        record = pool.submit(read_acl_record, clusters)
        try:
            there = source.result(), target.result()
        except UnsupportedBroker as error:
            return AclView(lacking=str(error))
        except AccessDenied as error:
            return AclView(refused=f"{error}, or set sync.topic.acls.enabled = false")
        except ClusterError as error:
            return AclView(refused=f"{error}; if it never does, set sync.topic.acls.enabled = false")
        return AclView(*there, record.result())


def copies_of(
    flow: FlowSettings,
    accepted: Iterable[TopicDecision],
    records: Iterable[TopicRecord],
    on_target: Collection[str],
    at_source: Collection[str],
) -> Copies:
    """What the flow copies, and what it copied and is still there: its readers stay while the source has them."""
    former = {
        record.upstream_topic: record.downstream_topic
        for record in records
        if record.state is not TopicState.CUT and record.downstream_topic in on_target
    }
    topics = {decision.topic: decision.remote_topic for decision in accepted if decision.remote_topic is not None}
    return Copies.of(flow, {**former, **topics}, on_target, at_source)


def plan_acls(flow: FlowSettings, view: AclView, copies: Copies, broker_settings: Mapping[str, str | None]) -> AclPlan:
    """What has to change so that readers of the source, and no others, may read the copies.

    Args:
        broker_settings: of a broker of the target, as far as they can be seen.
    """
    if view.lacking is not None:
        return AclPlan(notices=(f"no ACLs are synced: {view.lacking}; set sync.topic.acls.enabled = false",))
    if view.refused is not None:
        return AclPlan((UnknownAcls(flow.name.target, view.refused),))
    here, there = view.source, view.target
    without = [cluster.alias for cluster, found in ((flow.source, here), (flow.target, there)) if found is None]
    if here is None or there is None:
        who = f"{without[0]} has" if len(without) == 1 else f"{' and '.join(without)} have"
        return AclPlan(notices=(f"no ACLs are synced: {who} no authorizer",))
    replicators = replicator_principals(flow)
    downstream = set(copies.topics.values())
    suspects = frozenset() if replicators else {writer.principal for writer in writers(there, downstream)}
    ours = view.ours & there
    wanted = wanted_acls(here, copies, replicators, source=flow.name.source, suspects=suspects, ours=ours)
    notices = [*wanted.notices, *other_writers(there, downstream, replicators, flow.name.target)]
    difference = reconcile(wanted.bindings, there, view.ours)
    setting = broker_settings.get(OPEN_UNTIL_FIRST, "false")
    if setting != "false" and not flow.acl_replicator_superuser:
        locked = first_binding_locks_out(difference.create, there, downstream, replicators)
        if locked is not None:
            left = acl_actions(flow.name.target, revocations(difference, there, downstream))
            unknown = UnknownAcls(flow.name.target, _lock_out(flow, locked, replicators, known=setting is not None))
            return AclPlan((*left, unknown), tuple(notices))
    return AclPlan(acl_actions(flow.name.target, difference), tuple(notices))


def replicator_principals(flow: FlowSettings) -> frozenset[str]:
    """The principals with which the replicator writes to the target; empty if neither the file nor the login shows
    them."""
    written = frozenset(one.strip() for one in flow.acl_replicator_principals.split(";") if one.strip())
    if written:
        return written
    found = login_principal(flow.target)
    return frozenset() if found is None else frozenset({found})


def _lock_out(flow: FlowSettings, topic: str, replicators: Collection[str], *, known: bool) -> str:
    """Kafka describes settings of the authorizer without their values; ``known``: these brokers show it."""
    who = shlex.quote(min(replicators, default="User:..."))
    brokers = f"the brokers of {flow.name.target} have {OPEN_UNTIL_FIRST}"
    why = f"{brokers}, so" if known else f"{brokers}, without showing its value; if it is true,"
    return (
        f"no bindings are created: {why} the first one on {topic} would shut the replicator out; grant it WRITE on the "
        f"copies (kafka-acls.sh --add --topic {topic} --operation Write --allow-principal {who}), or, if it is a super "
        "user, set sync.topic.acls.replicator.superuser = true"
    )


def create_acls(clusters: FlowClusters, actions: Sequence[CreateAcls]) -> list[ActionResult]:
    """Create bindings, each DENY before any ALLOW; without the DENYs there are no ALLOWs.

    A binding that another client has created in the meantime stays that client's.
    """
    admin = clusters.target.acls
    wanted = [binding for action in actions for binding in action.bindings]
    try:
        there = admin.topic_bindings() or frozenset()
        recorded = read_acl_record(clusters)
        new = [binding for binding in wanted if binding not in there]
        write_acl_record(clusters, recorded.union(new))
    except SrmError as error:
        return [ActionResult(action, error=f"nothing was created: {error}") for action in actions]
    faults: dict[AclBinding, SrmError | str] = {}
    for permission in (Permission.DENY, Permission.ALLOW):
        batch = [binding for binding in new if binding.permission is permission]
        if permission is Permission.ALLOW and faults:
            faults |= dict.fromkeys(batch, _NO_DENY)
            break
        answers = zip(batch, admin.create(batch), strict=True)
        faults |= {binding: fault for binding, fault in answers if fault is not None}
    # What was surely not created is not ours; after a time-out it may be there.
    refused = {binding for binding, fault in faults.items() if isinstance(fault, str | AccessDenied)}
    if refused:
        write_acl_record(clusters, recorded.union(new) - refused)
    theirs = frozenset(wanted) - frozenset(new)
    return [_outcome(action, faults, theirs) for action in actions]


def delete_acls(
    clusters: FlowClusters, actions: Sequence[DeleteAcls], done: Mapping[Action, ActionResult]
) -> list[ActionResult]:
    """Delete the flow's own bindings. A DENY stays where another DENY, which may stand in for it, could not be created,
    and an ALLOW where that is so of one of the same right on some of its topics.

    ``done``: what was done before, creations among it.
    """
    admin = clusters.target.acls
    failed = [action for action, result in done.items() if isinstance(action, CreateAcls) and result.error is not None]
    keep_denies = any(action.permission is Permission.DENY for action in failed)
    uncreated = [binding for action in failed for binding in action.bindings]
    try:
        recorded = read_acl_record(clusters)
    except SrmError as error:
        return [ActionResult(action, error=f"nothing was deleted: {error}") for action in actions]
    faults: dict[AclBinding, SrmError | str] = {}
    gone: set[AclBinding] = set()
    for permission in (Permission.ALLOW, Permission.DENY):
        batch = [
            acl_binding for action in actions for acl_binding in action.bindings if acl_binding.permission is permission
        ]
        if permission is Permission.DENY and keep_denies:
            faults |= dict.fromkeys(batch, _NO_DENY)
            break
        if permission is Permission.ALLOW:
            kept = replaced(batch, uncreated)
            faults |= dict.fromkeys(kept, _NO_SUCCESSOR)
            batch = [binding for binding in batch if binding not in kept]
        # A plan may be older than the record: what is not ours by now is not touched.
        faults |= dict.fromkeys(set(batch) - recorded, "not deleted, because there is no record that it is ours")
        batch = [binding for binding in batch if binding in recorded]
        for binding, fault in zip(batch, admin.delete(batch), strict=True):
            if fault is None:
                gone.add(binding)
            else:
                faults[binding] = fault
    if gone:
        write_acl_record(clusters, recorded - gone)
    return [_outcome(action, faults, frozenset()) for action in actions]


def fail_unknown(actions: Sequence[Action]) -> list[ActionResult]:
    """What could not be planned has failed."""
    return [ActionResult(action, error=action.reason) for action in actions]


def _outcome(
    action: CreateAcls | DeleteAcls, faults: Mapping[AclBinding, SrmError | str], theirs: frozenset[AclBinding]
) -> ActionResult:
    failed = [binding for binding in action.bindings if binding in faults]
    if failed:
        rights = ", ".join(binding.right for binding in failed)
        of = "" if len(failed) == len(action.bindings) else f" of {rights}"
        return ActionResult(action, error=f"{len(failed)} of {len(action.bindings)}{of}: {faults[failed[0]]}")
    others = [binding.right for binding in action.bindings if binding in theirs]
    note = (
        f"another client has created {', '.join(others)} in the meantime; it is not ours to delete later"
        if others
        else None
    )
    return ActionResult(action, note=note)
