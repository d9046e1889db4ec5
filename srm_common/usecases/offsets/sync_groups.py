"""Commit translated offsets on the target for groups that are not in use there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from srm_common.domain.groups.group_offsets import TargetGroup, sync_group
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.kafka.groups.group_offsets import GroupFault
from srm_common.usecases.flows.flow_clusters import FlowCluster


@dataclass(frozen=True)
class GroupsSynced:
    """``positions`` were committed, for ``groups`` groups; ``kept`` are the groups whose offsets are now as translated,
    or further; ``in_use`` are groups that were left alone, with their states; ``beyond`` are groups that have passed
    their translated place on so many partitions, and are not moved back; ``faults`` what failed, group by group."""

    positions: int = 0
    groups: int = 0
    kept: frozenset[str] = frozenset()
    in_use: tuple[tuple[str, str], ...] = ()
    beyond: tuple[tuple[str, int], ...] = ()
    faults: tuple[GroupFault, ...] = ()


def sync_groups(
    target: FlowCluster, checkpoints: Mapping[str, Iterable[Checkpoint]], shared: Container[str] = frozenset()
) -> GroupsSynced:
    """One round on ``target``.

    Args:
        checkpoints: the newest of each group.
        shared: remote topics that other flows write to as well. A place that skips nothing of one source skips records
            of the others, so nothing is committed there.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    chosen = {group: [one for one in wanted if one.topic not in shared] for group, wanted in checkpoints.items()}
    checkpoints = {group: wanted for group, wanted in chosen.items() if wanted}
    if not checkpoints:
        return GroupsSynced()
    reader = target.groups()
    listed, unlisted = reader.groups()
    states = {group.name: group.state for group in listed if group.name in checkpoints}
    found, unread = reader.offsets(states)
    committed = {one.group: {place: at.offset for place, at in one.offsets.items()} for one in found}
    faults = [*unlisted, *unread]
    unknown = {fault.group for fault in unread}
    in_use: list[tuple[str, str]] = []
    beyond: list[tuple[str, int]] = []
    kept: set[str] = set()
    todo: dict[str, tuple[Checkpoint, ...]] = {}
    for group, wanted in sorted(checkpoints.items()):
        # A broker that could not list its groups may have any of them.
        if group in unknown or (unlisted and group not in states):
            continue
        found_there = TargetGroup(states[group], committed.get(group, {})) if group in states else TargetGroup()
        decided = sync_group(group, found_there, wanted)
        if decided.in_use is not None:
            in_use.append((group, decided.in_use))
        if decided.beyond:
            beyond.append((group, decided.beyond))
        if decided.commit:
            todo[group] = decided.commit
        if decided.in_use is None:
            kept.add(group)
    positions = groups = 0
    for group, done in target.group_offsets.commit_all(todo).items() if todo else ():
        positions += done.positions
        groups += bool(done.positions)
        faults += done.faults
        if done.forbidden is not None:
            in_use.append((group, done.forbidden))
        if done.forbidden is not None or done.faults:
            kept.discard(group)
    return GroupsSynced(positions, groups, frozenset(kept), tuple(sorted(in_use)), tuple(beyond), tuple(faults))
