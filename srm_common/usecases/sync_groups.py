"""Commit translated offsets on the target for groups that are not in use there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from srm_common.domain.checkpoints import Checkpoint
from srm_common.domain.flow import FlowSettings
from srm_common.domain.group_sync import TargetGroup, sync_group
from srm_common.kafka.group_commits import GroupCommitter
from srm_common.kafka.group_offsets import GroupFault, GroupReader


@dataclass(frozen=True)
class GroupsSynced:
    """``positions`` were committed, for ``groups`` groups; ``in_use`` are groups that were left alone, with their
    states; ``faults`` what failed, group by group."""

    positions: int = 0
    groups: int = 0
    in_use: tuple[tuple[str, str], ...] = ()
    faults: tuple[GroupFault, ...] = ()


def sync_groups(flow: FlowSettings, checkpoints: Mapping[str, Iterable[Checkpoint]]) -> GroupsSynced:
    """One round; ``checkpoints`` are the newest of each group.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    if not checkpoints:
        return GroupsSynced()
    reader = GroupReader(flow.target)
    listed, unlisted = reader.groups()
    states = {group.name: group.state for group in listed if group.name in checkpoints}
    found, unread = reader.offsets(states)
    committed = {one.group: {place: at.offset for place, at in one.offsets.items()} for one in found}
    faults = [*unlisted, *unread]
    unknown = {fault.group for fault in unread}
    committer = GroupCommitter(flow.target)
    in_use: list[tuple[str, str]] = []
    positions = groups = 0
    for group, wanted in sorted(checkpoints.items()):
        # A broker that could not list its groups may have any of them.
        if group in unknown or (unlisted and group not in states):
            continue
        target = TargetGroup(states[group], committed.get(group, {})) if group in states else TargetGroup()
        todo = sync_group(group, target, wanted)
        if todo.in_use is not None:
            in_use.append((group, todo.in_use))
        if not todo.commit:
            continue
        written, refused, more = committer.commit(group, todo.commit)
        positions += written
        groups += bool(written)
        faults += more
        if refused is not None:
            in_use.append((group, refused))
    return GroupsSynced(positions, groups, tuple(in_use), tuple(faults))
