"""From the desired bindings of copies to changes on the target, limited to bindings that the flow created.

A binding is recorded before it is created. One that exists without a record was created by others: it is never
deleted, and where it equals a wanted one there is nothing to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from srm_common.domain.access.acl_bindings import (
    EVERY_TOPIC,
    EVERYONE,
    AclBinding,
    Permission,
    TopicPattern,
    literal,
)
from srm_common.domain.access.copied_acls import NAME_IT, writers
from srm_common.domain.topics.actions import Difference, Job, action_json

REVOKED = "the source no longer has it, or nothing that it covers is copied"
REPLACED = "others take its place"
GONE = "it is already gone; only its record is removed"
#: How many writers of one plan are named.
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, order=True)
class AclChange:
    """One binding that is created or deleted, and why."""

    binding: AclBinding
    reason: str


@dataclass(frozen=True)
class _AclAction:
    kind: ClassVar[str]
    word: ClassVar[str]
    job: ClassVar[Job] = Job.ACLS

    cluster: str
    topics: TopicPattern
    permission: Permission
    changes: tuple[AclChange, ...]
    reason: str

    @property
    def topic(self) -> str:
        return str(self.topics)

    @property
    def bindings(self) -> tuple[AclBinding, ...]:
        return tuple(change.binding for change in self.changes)

    def __str__(self) -> str:
        rights = "; ".join(f"{change.binding.right} ({change.reason})" for change in self.changes)
        return f"{self.word} {self.permission} on topic {self.topic} on {self.cluster}: {rights}"


@dataclass(frozen=True)
class CreateAcls(_AclAction):
    """Create bindings of one permission on one pattern. Those that exist by then belong to their creator."""

    kind: ClassVar[str] = "create_acls"
    word: ClassVar[str] = "create ACL"

    def differences(self) -> tuple[Difference, ...]:
        return tuple(Difference(change.binding.right, None, self.permission, change.reason) for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return _json(self, [], [binding.to_json() for binding in self.bindings])


@dataclass(frozen=True)
class DeleteAcls(_AclAction):
    """Delete bindings of one permission on one pattern, all of them our own."""

    kind: ClassVar[str] = "delete_acls"
    word: ClassVar[str] = "delete ACL"

    def differences(self) -> tuple[Difference, ...]:
        return tuple(Difference(change.binding.right, self.permission, None, change.reason) for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return _json(self, [binding.to_json() for binding in self.bindings], [])


@dataclass(frozen=True)
class UnknownAcls:
    """Bindings cannot be compared, because a cluster refused to list its own: an action that always fails, so that a
    revocation that does not reach the copies never goes unnoticed."""

    kind: ClassVar[str] = "sync_acls"
    word: ClassVar[str] = "sync ACLs"
    job: ClassVar[Job] = Job.ACLS

    cluster: str
    reason: str

    @property
    def topic(self) -> str:
        return "all copies"

    def __str__(self) -> str:
        return f"{self.word} of all copies on {self.cluster}"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("ACLs", "not known", "not known"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, None, None)


def _json(action: CreateAcls | DeleteAcls, before: list[list[str]], after: list[list[str]]) -> dict[str, Any]:
    return {**action_json(action, before, after), "reasons": [change.reason for change in action.changes]}


@dataclass(frozen=True)
class AclDifference:
    """``create`` with the reason of each; ``delete`` are ours and there; ``forget`` are ours, gone and not wanted."""

    create: Mapping[AclBinding, str] = field(default_factory=dict)
    delete: frozenset[AclBinding] = frozenset()
    forget: frozenset[AclBinding] = frozenset()


def reconcile(
    wanted: Mapping[AclBinding, str], existing: Collection[AclBinding], ours: Collection[AclBinding]
) -> AclDifference:
    """What makes ``existing`` have all that is wanted, and nothing of ``ours`` besides."""
    there = frozenset(existing)
    unwanted = frozenset(ours) - wanted.keys()
    return AclDifference(
        {binding: reason for binding, reason in wanted.items() if binding not in there},
        unwanted & there,
        unwanted - there,
    )


def acl_actions(cluster: str, difference: AclDifference) -> tuple[CreateAcls | DeleteAcls, ...]:
    """The actions, one for each pattern and permission, in the order in which they are safe.

    A DENY comes before the ALLOWs that it limits and goes after them, so that no principal may do more in between than
    before or afterwards.
    """
    deletions = dict.fromkeys(difference.delete, REVOKED) | dict.fromkeys(difference.forget, GONE)
    deletions |= dict.fromkeys(replaced(difference.delete, difference.create), REPLACED)
    why = {Permission.ALLOW: "readers of the source may read the copy", Permission.DENY: "as it is at the source"}
    return (
        *(
            CreateAcls(cluster, topics, permission, changes, why[permission])
            for topics, permission, changes in _grouped(difference.create, (Permission.DENY, Permission.ALLOW))
        ),
        *(
            DeleteAcls(cluster, topics, permission, changes, _why_deleted(changes))
            for topics, permission, changes in _grouped(deletions, (Permission.ALLOW, Permission.DENY))
        ),
    )


def replaced(bindings: Iterable[AclBinding], by: Iterable[AclBinding]) -> set[AclBinding]:
    """Those of ``bindings`` for which one of ``by`` stands in: the same right on some of the topics."""
    literals: dict[AclBinding, list[TopicPattern]] = defaultdict(list)
    prefixes: dict[AclBinding, list[TopicPattern]] = defaultdict(list)
    for one in by:
        (literals if one.topics.prefix is None else prefixes)[_right(one)].append(one.topics)
    return {
        one
        for one in bindings
        # There may be thousands of literals on both sides, and these have no topics in common unless they are equal.
        for others in (prefixes[_right(one)], literals[_right(one)] if one.topics.prefix is not None else ())
        if any(one.topics.overlaps(other) for other in others)
    }


def _why_deleted(changes: Iterable[AclChange]) -> str:
    return REPLACED if all(change.reason == REPLACED for change in changes) else REVOKED


def _right(binding: AclBinding) -> AclBinding:
    return replace(binding, topics=literal(EVERY_TOPIC))


def _grouped(
    bindings: Mapping[AclBinding, str], order: Iterable[Permission]
) -> Iterable[tuple[TopicPattern, Permission, tuple[AclChange, ...]]]:
    groups: dict[tuple[Permission, TopicPattern], list[AclChange]] = {}
    for binding in sorted(bindings):
        groups.setdefault((binding.permission, binding.topics), []).append(AclChange(binding, bindings[binding]))
    for permission in order:
        for (found, topics), changes in groups.items():
            if found is permission:
                yield topics, permission, tuple(changes)


def other_writers(
    existing: Iterable[AclBinding], copies: Collection[str], replicators: Collection[str], cluster: str
) -> tuple[str, ...]:
    """A notice for each binding by which a principal other than the replicator may write to copies.

    Nothing is done about it: a DENY would win over every right that an operator gives in a failover.
    """
    found = []
    for binding, written in writers(existing, copies).items():
        if binding.principal not in replicators:
            what = written[0] if len(written) == 1 else f"{len(written)} copies"
            found.append(f"{binding.principal} may write to {what} on {cluster} by '{binding}'")
    if not found:
        return ()
    if len(found) > _MOST_NAMED:
        found[_MOST_NAMED:] = [
            f"{len(found) - _MOST_NAMED} more bindings permit others to write to copies on {cluster}"
        ]
    if not replicators:
        found.append(f"one of them may be the replicator's, whose principal on {cluster} is unknown; {NAME_IT}")
    return tuple(found)


def covered(bindings: Iterable[AclBinding], copies: Iterable[str]) -> set[str]:
    """The copies that any of the bindings is about."""
    names = sorted(copies)
    return {copy for topics in {binding.topics for binding in bindings} for copy in topics.among(names)}


def revocations(difference: AclDifference, existing: Collection[AclBinding], copies: Collection[str]) -> AclDifference:
    """What may be taken back while nothing can be created, on a target with ``allow.everyone.if.no.acl.found``.

    No DENY, as another one may be waiting to stand in for it; and no last binding of a copy, which would be open to
    everyone then.
    """
    allows = {binding for binding in difference.delete if binding.permission is Permission.ALLOW}
    closed = covered(frozenset(existing) - allows, copies)
    kept = {binding for binding in allows if not covered([binding], copies) <= closed}
    return AclDifference(delete=frozenset(allows - kept), forget=difference.forget)


def first_binding_locks_out(
    wanted: Iterable[AclBinding], existing: Iterable[AclBinding], copies: Collection[str], replicators: Collection[str]
) -> str | None:
    """For a target with ``allow.everyone.if.no.acl.found``: a copy that the replicator itself could not write to any
    more once one of the wanted bindings is there, None when there is no such copy.

    With that setting a topic is open to everyone until its first binding is created, and closed from then on: where it
    has one, and the replicator writes all the same, another one changes nothing for it.
    """
    existing = frozenset(existing)
    names = sorted(copies)
    mine = [written for one, written in writers(existing, names).items() if one.principal in {EVERYONE, *replicators}]
    open_ = set(names).difference(*mine, covered(existing, names))
    touched = {copy for binding in wanted for copy in binding.topics.among(names)}
    return min(touched & open_, default=None)
