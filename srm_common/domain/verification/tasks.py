"""A verification that is divided into parallel tasks, and the combination of their results.

A task compares whole partitions, or one *stretch* of a large one::

    map     [ segment )[ segment )[ segment )[ segment )[ segment )
    tasks   '----------- 1 ------------------'----------- 2 ------'

A stretch begins and ends where a segment does, and what lies between its last segment and the next belongs to it, so
that each batch of the copy is compared once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import Findings
from srm_common.domain.verification.verification import Against, PartitionVerified, VerificationScope

#: Of each slot, so that slots that are done early take from the others, and results come now and then.
_TASKS_PER_SLOT = 8
#: A task of less costs more for its connections and its part of the map than it saves.
_LEAST_TASK_BYTES = 64 << 20
#: A task that is lost, or interrupted, is done again.
_MOST_TASK_BYTES = 1 << 30
#: However small they are: what a task knows of each is held until it ends.
_MOST_TASK_PARTS = 500


@dataclass(frozen=True, slots=True)
class MapStretch:
    """The segments of a partition that begin downstream at ``begin`` (inclusive) to ``end`` (exclusive), both of which
    are where a segment begins; None: the first of all, and the last."""

    begin: int | None = None
    end: int | None = None

    def indexes(self, downstream_starts: Sequence[int]) -> tuple[int, int] | None:
        """Of these segments, the last one exclusive; None where one of its bounds is none of a segment any more."""
        bounds = []
        for offset, open_end in ((self.begin, 0), (self.end, len(downstream_starts))):
            number = open_end if offset is None else bisect_left(downstream_starts, offset)
            if offset is not None and (number == len(downstream_starts) or downstream_starts[number] != offset):
                return None
            bounds.append(number)
        return bounds[0], bounds[1]


#: Of a partition that one task compares as a whole.
WHOLE = MapStretch()


@dataclass(frozen=True)
class VerificationJob:
    """What all tasks of a verification share. Picklable; ``repr`` shows no credentials."""

    flow: FlowSettings
    scope: VerificationScope
    against: Against


@dataclass(frozen=True, slots=True)
class VerificationPart:
    """A partition, or a stretch of it. ``place`` is that at the source, ``copy`` the name of the copy's topic;
    ``bytes`` is what there is probably to read."""

    place: TopicPartition
    copy: str
    bytes: int
    stretch: MapStretch = WHOLE

    def failed(self, fault: str) -> PartitionVerified:
        """The result where nothing could be compared."""
        return PartitionVerified(*self.place, self.copy, Findings(), fault=fault)


@dataclass(frozen=True)
class VerificationTask:
    """What one task compares; no two stretches of one partition."""

    number: int
    parts: tuple[VerificationPart, ...]


@dataclass(frozen=True)
class TaskResult:
    """What a task has found. A part without a result could not be found in the offset map, which has changed since it
    was cut. ``faults`` are those of :class:`~srm_common.domain.verification.verification.Verification`."""

    number: int
    results: tuple[PartitionVerified, ...]
    faults: tuple[str, ...] = ()

    @classmethod
    def failed(cls, task: VerificationTask, fault: str) -> TaskResult:
        """Nothing of the task could be compared."""
        return cls(task.number, tuple(part.failed(fault) for part in task.parts))


def task_bytes(total: int, slots: int) -> int:
    """How much one task should compare of ``total`` bytes."""
    return min(max(total // (slots * _TASKS_PER_SLOT), _LEAST_TASK_BYTES), _MOST_TASK_BYTES)


def share_out(parts: Iterable[VerificationPart], slots: int) -> list[VerificationTask]:
    """Tasks of about equal size, the largest first; small partitions go together, topic by topic.

    Each part is in one task. The result depends on the set of the parts alone, not on their order.
    """
    ordered = sorted(parts, key=lambda part: (part.place, part.stretch.begin or 0))
    wanted = task_bytes(sum(part.bytes for part in ordered), slots)
    groups: list[list[VerificationPart]] = []
    small: list[VerificationPart] = []
    size = 0
    for part in ordered:
        if part.stretch != WHOLE or part.bytes >= wanted:
            groups.append([part])
            continue
        if small and (size + part.bytes > wanted or len(small) >= _MOST_TASK_PARTS):
            groups.append(small)
            small, size = [], 0
        small.append(part)
        size += part.bytes
    if small:
        groups.append(small)
    groups.sort(key=lambda group: -sum(part.bytes for part in group))
    return [VerificationTask(number, tuple(group)) for number, group in enumerate(groups)]


def joined_results(stretches: Sequence[PartitionVerified]) -> PartitionVerified:
    """The result of a partition from those of its stretches, in order."""
    first = stretches[0]
    findings, unread = Findings(), False
    for stretch in stretches:
        # Nothing is proved up to an offset behind what could not be read.
        later = replace(stretch.findings, proved_to=-1, proved_to_downstream=-1) if unread else stretch.findings
        findings.append(later)
        unread = unread or stretch.fault is not None
    return replace(
        first,
        findings=findings,
        log_start=min((stretch.log_start for stretch in stretches if stretch.log_start >= 0), default=-1),
        log_end=max(stretch.log_end for stretch in stretches),
        checked_ms=min(stretch.checked_ms for stretch in stretches),
        fault=next((stretch.fault for stretch in stretches if stretch.fault is not None), None),
    )
