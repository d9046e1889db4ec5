"""Offsets of consumer groups on the target: which translated ones are committed, and those set by hand from a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError

#: Kafka's states of a group without active members; a group that does not exist is ``ABSENT``.
EMPTY, DEAD, ABSENT = "empty", "dead", "absent"
IDLE = (EMPTY, DEAD, ABSENT)


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """A group on the target: its state in Kafka's words, lower case, and the next offsets it would read."""

    state: str = ABSENT
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSync:
    """What is done for one group: ``commit`` is written; ``there`` counts positions where the group stands already,
    ``beyond`` those that it has passed (it read on, or was rewound at the source) and is not moved back to;
    ``in_use`` is the state that forbids to write, None when nothing does."""

    group: str
    commit: tuple[Checkpoint, ...] = ()
    there: int = 0
    beyond: int = 0
    in_use: str | None = None


def sync_group(group: str, target: TargetGroup, checkpoints: Iterable[Checkpoint]) -> GroupSync:
    """Which translated offsets are committed for a group on the target (``sync.group.offsets.enabled``).

    MirrorMaker 2 writes for every group that it does not remember as empty, and relies on the broker to refuse groups
    in use. Here the state decides: only a group without members is written to, and never backwards. ``checkpoints`` are
    the group's newest, one a partition.
    """
    wanted = sorted(checkpoints, key=lambda one: (one.topic, one.partition))
    if target.state not in IDLE:
        return GroupSync(group, in_use=target.state)
    found = [target.offsets.get(TopicPartition(checkpoint.topic, checkpoint.partition), -1) for checkpoint in wanted]
    commit = tuple(one for one, offset in zip(wanted, found, strict=True) if offset < one.downstream)
    beyond = sum(offset > one.downstream for one, offset in zip(wanted, found, strict=True))
    return GroupSync(group, commit, there=len(wanted) - len(commit) - beyond, beyond=beyond)


# The CSV files of kafka-consumer-groups.sh --reset-offsets --from-file, without a header: topic,partition,offset for
# one group, group,topic,partition,offset for several. As in Kafka's tool, the first line decides which the file has.
_SHORT, _LONG = 3, 4
_LARGEST, _MOST_DIGITS = (1 << 63) - 1, 19


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where ``group`` is to continue: ``offset`` is the next record to read."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str = ""


def write_group_offsets(offsets: Iterable[GroupOffset], *, one_group: bool) -> str:
    """The file for these offsets; the short layout has no groups."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [*([] if one_group else [offset.group]), offset.topic, offset.partition, offset.offset] for offset in offsets
    )
    return text.getvalue()


def parse_group_offsets(text: str, file: str, groups: Collection[str]) -> list[GroupOffset]:
    """The offsets in a file, in its order.

    Args:
        file: its name, for messages.
        groups: those that were asked for: exactly one where the file has the short layout; where it has the long one,
            lines of others are left out, and none asked for means all.

    Raises:
        ConfigError: the file is not CSV, a line cannot be read, or a partition comes twice; names file and line.
    """
    try:
        rows = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), 1) if row]
    except csv.Error as error:
        raise ConfigError(f"it is not CSV: {error}", file=file) from None
    if not rows:
        raise ConfigError("there are no offsets in it", file=file)
    columns = len(rows[0][1])
    if columns not in (_SHORT, _LONG):
        raise ConfigError(
            f"{columns} columns where topic,partition,offset or group,topic,partition,offset is expected",
            file=file,
            line=rows[0][0],
        )
    if columns == _SHORT and len(groups) != 1:
        raise ConfigError("the lines name no group; say which one is meant with --group G", file=file)
    offsets: dict[tuple[str, str, int], GroupOffset] = {}
    for line, row in rows:
        if len(row) != columns:
            raise ConfigError(f"{len(row)} columns, but the lines before have {columns}", file=file, line=line)
        group = next(iter(groups)) if columns == _SHORT else row[0]
        topic = row[-3].strip()
        if not group or not topic:
            raise ConfigError(f"the {'topic' if group else 'group'} is missing", file=file, line=line)
        partition, offset = _number(row[-2], "partition", file, line), _number(row[-1], "offset", file, line)
        if groups and group not in groups:
            continue
        place = group, topic, partition
        if place in offsets:
            raise ConfigError(f"{topic}-{partition} of group {group} is listed twice", file=file, line=line)
        offsets[place] = GroupOffset(group, topic, partition, offset)
    missing = sorted(set(groups) - {group_offset.group for group_offset in offsets.values()})
    if missing:
        raise ConfigError(f"it has no offsets of group {missing[0]}", file=file)
    return list(offsets.values())


def _number(text: str, what: str, file: str, line: int) -> int:
    written = text.strip()
    if written.startswith("-") and written[1:].isdecimal():
        raise ConfigError(f"the {what} {written} is negative", file=file, line=line)
    number = written.isascii() and written.isdecimal() and len(written) <= _MOST_DIGITS
    if not number or int(written) > _LARGEST:
        raise ConfigError(f"the {what} '{written}' is not a number", file=file, line=line)
    return int(written)


@dataclass(frozen=True, slots=True)
class AppliedOffset:
    """One partition of one group.

    ``before`` is the next record that the group would have read, None where it had committed nothing; ``after`` what it
    has committed now, None if not checked. ``kept`` says why an offset is left as it is although another one
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
        way = f"forward by {distance}" if distance > 0 else f"back by {-distance}, which are read again"
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
    logs: Mapping[TopicPartition, LogRange | str],
    *,
    rewind: bool,
) -> list[AppliedOffset]:
    """Judge each offset; nothing may be written while one of them has a problem.

    Args:
        groups: those of the cluster, or a sentence if one cannot be queried; absent: it does not exist, which is
            allowed.
        logs: those of the partitions, or a sentence; absent: there is no such partition.
        rewind: whether groups may be moved back.
    """
    out = []
    for offset in wanted:
        log = logs.get(TopicPartition(offset.topic, offset.partition))
        out.append(_judged(offset, groups.get(offset.group, TargetGroup()), log, rewind))
    return out


def _judged(wanted: GroupOffset, group: TargetGroup | str, log: LogRange | str | None, rewind: bool) -> AppliedOffset:
    if isinstance(group, str):
        return AppliedOffset(wanted, problem=group)
    before = group.offsets.get(TopicPartition(wanted.topic, wanted.partition))
    judged = AppliedOffset(wanted, before)
    if group.state not in IDLE:
        reason = f"group {wanted.group} is in use ({group.state}): stop its consumers, then run again"
        return replace(judged, problem=reason)
    if not isinstance(log, LogRange):
        return replace(judged, problem=log or f"no such partition: {wanted.topic}-{wanted.partition}")
    if not log.start <= wanted.offset <= log.end:
        reason = f"offset {wanted.offset} is not in the log, which has the offsets {log.start} to {log.end}"
        return replace(judged, problem=reason)
    if before is not None and wanted.offset < before and not rewind:
        return replace(judged, kept=f"left: the group is already further ahead, at {before}; --rewind moves it back")
    return judged


def compared(applied: AppliedOffset, group: TargetGroup | str, fault: str | None) -> AppliedOffset:
    """``applied`` after the attempt: ``group`` as found afterwards, or why it could not be queried; ``fault`` is the
    cluster's error for the attempt."""
    if isinstance(group, str):
        return replace(applied, problem=f"cannot tell whether it was set: {fault or group}")
    after = group.offsets.get(TopicPartition(applied.wanted.topic, applied.wanted.partition))
    applied = replace(applied, after=after)
    if not applied.changes or after == applied.wanted.offset:
        return applied
    stands = "nothing is committed" if after is None else f"it is at {after}"
    return replace(applied, problem=f"not set, {stands}: {fault or 'another client has committed in the meantime'}")
