"""Commit offsets for consumer groups on a cluster, and verify the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.groups.group_offsets import (
    ABSENT,
    EMPTY,
    AppliedOffset,
    GroupOffset,
    TargetGroup,
    compared,
    judge_application,
)
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import SrmError
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.kafka.groups.group_commits import Committed
from srm_common.usecases.flows.open_cluster import OpenCluster


def apply_offsets(
    cluster: ClusterSettings,
    wanted: Sequence[GroupOffset],
    *,
    dry_run: bool = False,
    rewind: bool = False,
    begin: Callable[[], None] = lambda: None,
) -> list[AppliedOffset]:
    """Commit ``wanted`` for groups without active members, one request per group.

    Nothing is written while one of them has a problem. What the cluster refuses then is a problem of that group, and
    the others are done; every offset is read again afterwards. ``begin`` is called right before the first one is
    committed; what it raises ends it there.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers before anything was written.
    """
    with OpenCluster(cluster) as opened:
        return _apply(opened, wanted, begin, dry_run=dry_run, rewind=rewind)


def _apply(
    cluster: OpenCluster,
    wanted: Sequence[GroupOffset],
    begin: Callable[[], None],
    *,
    dry_run: bool,
    rewind: bool,
) -> list[AppliedOffset]:
    names = sorted({group_offset.group for group_offset in wanted})
    judged = judge_application(wanted, _groups(cluster, names), _logs(cluster, wanted), rewind=rewind)
    changing: dict[str, list[Checkpoint]] = {}
    for applied_offset in judged:
        if applied_offset.changes:
            # Upstream is not known here, and not committed.
            place = applied_offset.wanted
            offset = Checkpoint(place.group, place.topic, place.partition, 0, place.offset, place.metadata)
            changing.setdefault(place.group, []).append(offset)
    if dry_run or not changing or any(applied_offset.problem is not None for applied_offset in judged):
        return judged
    begin()
    outcomes = cluster.group_offsets.commit_all(changing)
    faults = {group: fault for group, outcome in outcomes.items() if (fault := _fault(outcome)) is not None}
    after = _groups_after(cluster, names)
    return [
        compared(
            applied_offset,
            after.get(applied_offset.wanted.group, TargetGroup()),
            faults.get(applied_offset.wanted.group),
        )
        for applied_offset in judged
    ]


def _fault(outcome: Committed) -> str | None:
    if outcome.forbidden is not None:
        return f"the group is {outcome.forbidden}"
    return outcome.faults[0].reason if outcome.faults else None


def _groups_after(cluster: OpenCluster, names: Sequence[str]) -> Mapping[str, TargetGroup | str]:
    """As :func:`_groups`; offsets may have been written, so that an error must not hide which."""
    try:
        return _groups(cluster, names)
    except SrmError as error:
        return dict.fromkeys(names, str(error))


def _groups(cluster: OpenCluster, names: Sequence[str]) -> dict[str, TargetGroup | str]:
    reader = cluster.groups()
    listed, unlisted = reader.groups()
    states = {group.name: group.state for group in listed}
    others, _ = cluster.other_groups()
    kinds = {group.name: group.protocol for group in others}
    # Also those that are not listed: without the right to see a group it is left out of the list, and refused here.
    offsets, unread = reader.offsets(name for name in names if name not in kinds)
    out: dict[str, TargetGroup | str] = {
        offset.group: TargetGroup(
            states.get(offset.group, EMPTY if offset.offsets else ABSENT),
            {place: at.offset for place, at in offset.offsets.items()},
        )
        for offset in offsets
    }
    for name in names:
        if unlisted and name not in states:
            out[name] = str(unlisted[0])
        if name in kinds:
            out[name] = f"{name} is a {kinds[name]} group, whose offsets cannot be set"
    return out | {fault.group: fault.reason for fault in unread}


def _logs(cluster: OpenCluster, wanted: Iterable[GroupOffset]) -> dict[TopicPartition, LogRange | str]:
    admin = cluster.admin
    partitions = admin.topics().partitions
    places = sorted(
        {
            TopicPartition(offset.topic, offset.partition)
            for offset in wanted
            if offset.partition < partitions.get(offset.topic, 0)
        }
    )
    starts = admin.offsets(places, EARLIEST)
    ends = admin.offsets(places, LATEST, committed=False)
    logs: dict[TopicPartition, LogRange | str] = {}
    for place in places:
        start, end = starts[place], ends[place]
        logs[place] = LogRange(start, end) if isinstance(start, int) and isinstance(end, int) else _why(start, end)
    return logs


def _why(*answers: int | SrmError) -> str:
    return str(next(answer for answer in answers if isinstance(answer, SrmError)))
