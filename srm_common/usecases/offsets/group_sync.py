"""Commit checkpoints on the target, for groups without members there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from srm_common.domain.groups.group_offsets import TargetGroup, sync_group
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.groups.group_offsets import GroupFault
from srm_common.kafka.state.checkpoint_log import Place
from srm_common.usecases.flows.open_cluster import OpenCluster


def _forget_void(
    target: OpenCluster,
    committed: Mapping[str, dict[TopicPartition, int]],
    checkpoints: Mapping[str, Iterable[Checkpoint]],
    void: Mapping[Place, int],
) -> None:
    """Remove from ``committed`` what does not count. Raises as :func:`sync_groups`."""
    ahead = [
        (one, place, offset)
        for group, found in committed.items()
        for one in checkpoints[group]
        if (offset := found.get(place := TopicPartition(one.topic, one.partition), -1)) > one.downstream
    ]
    expected: dict[TopicPartition, int] = {}
    for _, place, offset in ahead:
        expected[place] = max(offset, expected.get(place, 0))
    ends = target.log_ends(expected)
    for one, place, offset in ahead:
        if offset > ends.get(place, offset) or offset <= void.get((one.group, *place), -1):
            del committed[one.group][place]


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
    target: OpenCluster,
    checkpoints: Mapping[str, Iterable[Checkpoint]],
    shared: Container[str] = frozenset(),
    void: Mapping[Place, int] | None = None,
) -> GroupsSynced:
    """One round on ``target``.

    Args:
        checkpoints: the newest of each group.
        shared: remote topics that other flows write to as well. A place that skips nothing of one source skips records
            of the others, so nothing is committed there.
        void: what earlier checkpoints said that hold no more. Offsets up to there do not count, nor do those behind the
            end of the log: the group has not read what lies there now.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    chosen = {
        group: [checkpoint for checkpoint in wanted if checkpoint.topic not in shared]
        for group, wanted in checkpoints.items()
    }
    checkpoints = {group: wanted for group, wanted in chosen.items() if wanted}
    if not checkpoints:
        return GroupsSynced()
    reader = target.groups()
    listed, unlisted = reader.groups()
    states = {group.name: group.state for group in listed if group.name in checkpoints}
    offsets, unread = reader.offsets(states)
    committed = {offset.group: {place: at.offset for place, at in offset.offsets.items()} for offset in offsets}
    faults = [*unlisted, *unread]
    _forget_void(target, committed, checkpoints, void or {})
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
