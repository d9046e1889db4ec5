"""Stored results of verifications: the newest one of each partition, and their summary for the flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from srm_common.domain.amount import counted
from srm_common.domain.document import reading
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import Difference, DifferenceKind
from srm_common.domain.verification.verification import Against, PartitionVerified, Verdict, verdicts

_VERSION = 1


@dataclass(frozen=True, slots=True)
class VerificationSummary:
    """Of all partitions that were ever compared. Times are epoch milliseconds.

    ``uncompared``: partitions with records that the flow has copied and no verification has compared; in reports of
    runs, which know what the flow copies.

    ``started_ms`` and ``ended_ms`` are those of the newest comparison; without an end it was stopped, or is still
    running. ``oldest_ms``: since when no partition without a difference was compared. ``sentence``: about the
    differences, None where there are none. ``software``: the version of what compared last.
    """

    against: Against
    started_ms: int
    ended_ms: int | None
    counts: Mapping[Verdict, int]
    records: int = 0
    oldest_ms: int | None = None
    sentence: str | None = None
    software: str = ""
    configuration: str = ""
    uncompared: int = 0

    @property
    def proved(self) -> bool:
        """Whether all that was copied is proved."""
        compared = set(self.counts) <= {Verdict.PROVED, Verdict.NOTHING} and Verdict.PROVED in self.counts
        return compared and not self.uncompared

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "against": str(self.against),
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "counts": {str(verdict): count for verdict, count in self.counts.items()},
            "records": self.records,
            "oldest_ms": self.oldest_ms,
            "sentence": self.sentence,
            "software": self.software,
            "configuration": self.configuration,
            "uncompared": self.uncompared,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`.

        Raises:
            CorruptRecord: it is something else, or of a version that is not known.
        """
        with reading(found, "the newest verification", _VERSION):
            return cls(
                Against(found["against"]),
                int(found["started_ms"]),
                None if found["ended_ms"] is None else int(found["ended_ms"]),
                {Verdict(verdict): int(count) for verdict, count in found["counts"].items()},
                int(found["records"]),
                None if found["oldest_ms"] is None else int(found["oldest_ms"]),
                None if found["sentence"] is None else str(found["sentence"]),
                str(found["software"]),
                str(found["configuration"]),
                int(found.get("uncompared", 0)),
            )
        raise AssertionError


def uncompared(
    results: Mapping[TopicPartition, PartitionVerified], copied: Mapping[TopicPartition, int | None]
) -> list[TopicPartition]:
    """The partitions that no verification has compared although the flow has copied records.

    Args:
        results: the newest ones, by partition at the source.
        copied: where the log of each partition's copy ends; None where that is not known.
    """
    return sorted(place for place, end in copied.items() if end != 0 and not _is_compared(results.get(place), end))


def _is_compared(result: PartitionVerified | None, end: int | None) -> bool:
    if result is None or result.verdict is not Verdict.NOTHING:
        return result is not None
    # It was found empty, or without anything since the time that was asked for: what came later is not compared.
    return result.whole and end is not None and end <= result.log_end


def results_document(results: Mapping[int, PartitionVerified]) -> dict[str, Any]:
    """The newest results of a topic's partitions, as plain values."""
    return {"version": _VERSION, "partitions": {str(number): one.to_json() for number, one in sorted(results.items())}}


def results_from(found: Mapping[str, Any], topic: str) -> dict[int, PartitionVerified]:
    """The inverse of :func:`results_document`.

    Raises:
        CorruptRecord: it is something else, or of a version that is not known.
    """
    results: dict[int, PartitionVerified] = {}
    with reading(found, f"the stored verification results of {topic}", _VERSION):
        results = {int(number): PartitionVerified.from_json(one) for number, one in found["partitions"].items()}
    return results


_ROW = (
    "topic",
    "partition",
    "verdict",
    "checked_ms",
    "against",
    "sample",
    "whole",
    "proved_from",
    "proved_to",
    "proved",
)


def results_table(results: Iterable[PartitionVerified]) -> dict[str, Any]:
    """The newest results of a flow as rows under one header, for reports of runs: there may be tens of thousands. Of
    differences the first, with its sentence."""
    rows = []
    for result in sorted(results, key=lambda one: one.place):
        found, first = result.to_json(), result.first
        difference = None if first is None else {**first.to_json(), "sentence": str(first)}
        rows.append([*(found[name] for name in _ROW), result.fault, difference])
    return {"columns": [*_ROW, "fault", "difference"], "rows": rows}


def newest_result(
    before: PartitionVerified | None, now: PartitionVerified, *, against_map: bool = True
) -> PartitionVerified:
    """Which of two results of one partition to keep. A sample without a difference proves nothing about the rest, so it
    replaces only another sample. A comparison with a source (not ``against_map``) that is gone or has other records
    proves nothing at all."""
    if before is None:
        return now
    if not against_map and now.verdict not in (Verdict.PROVED, Verdict.DIFFERENT):
        return before
    if now.whole or now.verdict in (Verdict.DIFFERENT, Verdict.FAILED):
        return now
    return before if before.whole or before.verdict is Verdict.DIFFERENT else now


def shortened(result: PartitionVerified) -> PartitionVerified:
    """A result with the first difference of each kind only, as it is remembered."""
    first: dict[DifferenceKind, Difference] = {}
    for difference in result.findings.differences:
        first.setdefault(difference.kind, difference)
    return replace(result, findings=replace(result.findings, differences=list(first.values())))


def summarized(
    flow: str, against: Against, started_ms: int, ended_ms: int | None, results: Iterable[PartitionVerified]
) -> VerificationSummary:
    """The summary of the results of all partitions."""
    verifieds = sorted(results, key=lambda one: (one.topic, one.partition))
    different = [verified for verified in verifieds if verified.verdict is Verdict.DIFFERENT]
    compared = [verified.checked_ms for verified in verifieds if verified.verdict in (Verdict.PROVED, Verdict.PARTLY)]
    return VerificationSummary(
        against,
        started_ms,
        ended_ms,
        verdicts(verifieds),
        sum(verified.findings.proved for verified in verifieds),
        min(compared, default=None),
        differences_sentence(flow, different, len(verifieds)) if different else None,
    )


def differences_sentence(flow: str, different: list[PartitionVerified], partitions: int) -> str:
    """About partitions with differences, of which there is at least one."""
    first = different[0]
    where = counted(partitions, "partition")
    return (
        f"in {len(different)} of {where} the copy differs from what was committed, the first: {first.copy}-"
        f"{first.partition}, {first.first}; srm-control verify --flow '{flow}' lists them"
    )


def outcome_sentence(flow: str, partitions: Sequence[PartitionVerified]) -> str:
    """The summary of a verification's results."""
    counts = verdicts(partitions)
    where = counted(len(partitions), "partition")
    if different := counts.get(Verdict.DIFFERENT, 0):
        sentence = f"in {different} of {where} the copy differs from what was committed"
    elif failed := counts.get(Verdict.FAILED, 0):
        sentence = f"{failed} of {where} could not be read to the end"
    elif set(counts) <= {Verdict.NOTHING} and all(partition.whole for partition in partitions):
        sentence = "nothing was compared: the flow has copied nothing yet"
    elif set(counts) <= {Verdict.NOTHING}:
        sentence = "nothing was compared: no copied segment is in the sample and as new as was asked for"
    else:
        proved = sum(partition.findings.proved for partition in partitions)
        sentence = f"no difference in {where}, {counted(proved, 'record')} proved"
    return f"{flow}: {sentence}"


def failure_sentence(flow: str, partitions: Sequence[PartitionVerified], faults: Sequence[str] = ()) -> str | None:
    """Why a verification has failed, by the first difference, or else the first partition that could not be read; None
    where it is :attr:`~srm_common.domain.verification.verification.Verification.clean`. ``faults`` are those of the
    verification."""
    different = [partition for partition in partitions if partition.verdict is Verdict.DIFFERENT]
    if different:
        return differences_sentence(flow, different, len(partitions))
    failed = [partition for partition in partitions if partition.verdict is Verdict.FAILED]
    if failed:
        first = failed[0]
        return (
            f"{len(failed)} of {counted(len(partitions), 'partition')} could not be read to the end, the first: "
            f"{first.copy}-{first.partition}: {first.fault}"
        )
    if faults:
        return f"the offset map cannot be read in {counted(len(faults), 'place')}, the first: {faults[0]}"
    return None


def unproved_lines(partitions: Iterable[PartitionVerified], most: int = 200) -> list[str]:
    """A line for each partition that is not proved: how much of it and why not, or what is different. No more than
    ``most`` of them, the worst first."""
    order = list(Verdict)
    verifieds = sorted(
        (partition for partition in partitions if partition.verdict not in (Verdict.PROVED, Verdict.NOTHING)),
        key=lambda one: (order.index(one.verdict), one.copy, one.partition),
    )
    lines = []
    for verified in verifieds[:most]:
        reasons = [f"{records} {reason}" for reason, records in verified.findings.not_proved.items()]
        why = verified.fault or verified.first or ", ".join(reasons) or "only a part of it was to be compared"
        lines.append(
            f"{verified.copy}-{verified.partition}: {verified.verdict}, {verified.findings.proved} records proved: "
            f"{why}"
        )
    if len(verifieds) > most:
        lines.append(f"... and {len(verifieds) - most} more")
    return lines
