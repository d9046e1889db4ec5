"""What would mend copies that a verification has found to be different. None of it is done automatically."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.verification import PartitionVerified, Verdict

#: What was committed and is not there as it was: it can be copied again, as long as the source has it.
_COPIED_AGAIN = frozenset(
    {
        DifferenceKind.CHANGED,
        DifferenceKind.CORRUPT,
        DifferenceKind.REORDERED,
        DifferenceKind.LOST,
        DifferenceKind.TRUNCATED,
        DifferenceKind.COMPACTED,
    }
)


@dataclass(frozen=True, slots=True)
class RepairStep:
    """Of one partition of the upstream ``topic``. It would be copied again from the upstream offset ``first``, after
    the existing records; None if that does not help. ``command``: the command for it, None if there is none."""

    topic: str
    partition: int
    copy: str
    kind: DifferenceKind
    first: int | None
    effect: str
    command: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "copy": self.copy,
            "kind": str(self.kind),
            "first": self.first,
            "effect": self.effect,
            "command": self.command,
        }


def repair_plan(flow: str, results: Iterable[PartitionVerified]) -> list[RepairStep]:
    """The steps for all partitions with differences, by topic and partition. One offset mends all of a partition that
    can be copied again; what else is wrong there is a step of its own."""
    different = [result for result in results if result.verdict is Verdict.DIFFERENT]
    return [step for verified in sorted(different, key=lambda one: one.place) for step in _steps(flow, verified)]


def _steps(flow: str, result: PartitionVerified) -> Iterator[RepairStep]:
    again = [
        difference
        for difference in result.findings.differences
        if difference.kind in _COPIED_AGAIN and difference.upstream_first >= 0
    ]
    place = (result.topic, result.partition, result.copy)
    if again:
        first = min(again, key=lambda one: one.upstream_first)
        offset = first.upstream_first
        yield RepairStep(
            *place,
            first.kind,
            offset,
            f"the next run would copy {result.topic}-{result.partition} from offset {offset} on again, after the "
            f"records already in {result.copy}-{result.partition}: consumers that read on see them twice",
            f"srm-control source-offsets set --flow {shlex.quote(flow)} --topic {shlex.quote(result.topic)} "
            f"--partition {result.partition} --offset {offset}",
        )
    for difference in result.findings.differences:
        if difference not in again:
            yield RepairStep(*place, difference.kind, None, _else(difference.kind))


def _else(kind: DifferenceKind) -> str:
    if kind in (DifferenceKind.RECREATED, DifferenceKind.DELETED):
        return "the next run would apply on.target.loss to the topic; srm-control plan shows what it would do"
    if kind in (DifferenceKind.FOREIGN, DifferenceKind.DOUBLED):
        return "no record can be taken out of a log: leave it, or delete the copy, which is then copied from its start"
    if kind is DifferenceKind.UNMAPPED:
        return "nothing would be copied: the records are there, but offsets within them cannot be translated exactly"
    return "it cannot be said which upstream offsets it concerns: delete the copy, which is then copied from its start"
