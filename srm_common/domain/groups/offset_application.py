"""Setting the offsets of consumer groups by hand: what would change, what that means, and why it cannot be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from srm_common.domain.groups.group_offsets_file import GroupOffset
from srm_common.domain.groups.group_sync import ABSENT, DEAD, EMPTY, TargetGroup
from srm_common.domain.offsets.offset_edits import LogRange

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class AppliedOffset:
    """One partition of one group.

    ``before`` is the next record that the group would have read, None where it had committed nothing; ``after`` what it
    has committed now, None where nobody has looked. ``kept`` says why an offset is left as it is although another one
    was asked for, ``problem`` why it cannot be done or was not.
    """

    wanted: GroupOffset
    before: int | None = None
    after: int | None = None
    kept: str | None = None
    problem: str | None = None

    @property
    def changes(self) -> bool:
        return self.problem is None and self.kept is None and self.before != self.wanted.offset

    @property
    def effect(self) -> str:
        """What becomes of it, in words."""
        if self.problem is not None or self.kept is not None:
            return str(self.problem or self.kept)
        if not self.changes:
            return "as it is"
        if self.before is None:
            return "is set" if self.after is None else "set"
        distance = self.wanted.offset - self.before
        way = f"forward by {distance}" if distance > 0 else f"back by {-distance}: so many are read again"
        return way if self.after is None else f"set, {way}"

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.wanted.group,
            "topic": self.wanted.topic,
            "partition": self.wanted.partition,
            "offset": self.wanted.offset,
            "before": self.before,
            "after": self.after,
            "effect": self.effect,
            "problem": self.problem,
        }


def judge_application(
    wanted: Iterable[GroupOffset],
    groups: Mapping[str, TargetGroup | str],
    logs: Mapping[Partition, LogRange | str],
    *,
    rewind: bool,
) -> list[AppliedOffset]:
    """Judge each offset; nothing may be written while one of them has a problem.

    Args:
        groups: those of the cluster, or a sentence where one cannot be looked at; absent: there is none, which is no
            hindrance.
        logs: those of the partitions, or a sentence; absent: there is no such partition.
        rewind: whether groups may be moved back.
    """
    return [_judged(one, groups.get(one.group, TargetGroup()), logs.get((one.topic, one.partition)), rewind)
            for one in wanted]  # fmt: skip


def _judged(wanted: GroupOffset, group: TargetGroup | str, log: LogRange | str | None, rewind: bool) -> AppliedOffset:
    if isinstance(group, str):
        return AppliedOffset(wanted, problem=group)
    before = group.offsets.get((wanted.topic, wanted.partition))
    judged = AppliedOffset(wanted, before)
    if group.state not in (EMPTY, DEAD, ABSENT):
        reason = f"group {wanted.group} is in use ({group.state}): stop its consumers, then run again"
        return replace(judged, problem=reason)
    if not isinstance(log, LogRange):
        return replace(judged, problem=log or f"there is no partition {wanted.topic}-{wanted.partition}")
    if not log.start <= wanted.offset <= log.end:
        reason = f"offset {wanted.offset} is not in the log, which has the offsets {log.start} to {log.end}"
        return replace(judged, problem=reason)
    if before is not None and wanted.offset < before and not rewind:
        return replace(judged, kept=f"left: the group is further, at {before}; --rewind moves it back")
    return judged


def compared(applied: AppliedOffset, group: TargetGroup | str, fault: str | None) -> AppliedOffset:
    """``applied`` after the attempt: ``group`` as it was found afterwards, or why it could not be looked at; ``fault``
    is what the cluster said to the attempt."""
    if isinstance(group, str):
        return replace(applied, problem=f"whether it was set is not known: {fault or group}")
    after = group.offsets.get((applied.wanted.topic, applied.wanted.partition))
    applied = replace(applied, after=after)
    if not applied.changes or after == applied.wanted.offset:
        return applied
    stands = "nothing is committed" if after is None else f"it stands at {after}"
    return replace(applied, problem=f"not set, {stands}: {fault or 'somebody else has committed meanwhile'}")
