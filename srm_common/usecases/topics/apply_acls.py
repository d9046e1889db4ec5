"""Handlers of ACL actions. Creations are recorded first; see :mod:`srm_common.kafka.state.acl_record`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srm_common.domain.access.acl_changes import CreateAcls, DeleteAcls
from srm_common.domain.access.acls import AclBinding, Permission
from srm_common.domain.topics.actions import Action, ActionResult
from srm_common.errors import AccessDenied, SrmError
from srm_common.kafka.state.acl_record import read_acl_record, write_acl_record
from srm_common.usecases.flows.flow_clusters import FlowClusters

_NO_DENY = "left as it is, because a DENY before it could not be created"


def create_acls(clusters: FlowClusters, actions: Sequence[CreateAcls]) -> list[ActionResult]:
    """Create bindings, each DENY before any ALLOW; without the DENYs there are no ALLOWs.

    A binding that another client has created in the meantime stays that client's.
    """
    flow, admin, state = clusters.flow, clusters.target.acls, clusters.state
    wanted = [binding for action in actions for binding in action.bindings]
    try:
        there = admin.topic_bindings() or frozenset()
        recorded = read_acl_record(flow, state)
        new = [binding for binding in wanted if binding not in there]
        write_acl_record(flow, state, recorded.union(new), admin=clusters.target.clients.admin)
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
        write_acl_record(flow, state, recorded.union(new) - refused, admin=clusters.target.clients.admin)
    theirs = frozenset(wanted) - frozenset(new)
    return [_outcome(action, faults, theirs) for action in actions]


def delete_acls(
    clusters: FlowClusters, actions: Sequence[DeleteAcls], done: Mapping[Action, ActionResult]
) -> list[ActionResult]:
    """Delete bindings of ours. A DENY stays where another DENY, which may stand in for it, could not be created.

    ``done``: what was done before, creations among it.
    """
    flow, admin, state = clusters.flow, clusters.target.acls, clusters.state
    keep_denies = any(
        isinstance(action, CreateAcls) and action.permission is Permission.DENY and result.error is not None
        for action, result in done.items()
    )
    try:
        recorded = read_acl_record(flow, state)
    except SrmError as error:
        return [ActionResult(action, error=f"nothing was deleted: {error}") for action in actions]
    faults: dict[AclBinding, SrmError | str] = {}
    gone: set[AclBinding] = set()
    for permission in (Permission.ALLOW, Permission.DENY):
        batch = [one for action in actions for one in action.bindings if one.permission is permission]
        if permission is Permission.DENY and keep_denies:
            faults |= dict.fromkeys(batch, _NO_DENY)
            break
        # A plan may be older than the record: what is not ours by now is not touched.
        faults |= dict.fromkeys(set(batch) - recorded, "not deleted, because there is no record that it is ours")
        batch = [binding for binding in batch if binding in recorded]
        for binding, fault in zip(batch, admin.delete(batch), strict=True):
            if fault is None:
                gone.add(binding)
            else:
                faults[binding] = fault
    if gone:
        write_acl_record(flow, state, recorded - gone, admin=clusters.target.clients.admin)
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
