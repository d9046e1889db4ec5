"""What a flow's history has counted of its newest runs: records that they lost or left out.

By it a run that is reported again, or late, counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from srm_common.domain.monitoring.run_report import RunReport

#: Of so many runs that lost or left out records the history knows how many, the newest ones.
RUNS_COUNTED = 50


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What a history has counted of run ``run_id``, reported at ``reported_ms``: records that were ``lost`` and passed,
    records that transforms ``skipped``, and ``dead_letters`` among them."""

    run_id: str
    reported_ms: int
    lost: int = 0
    skipped: int = 0
    dead_letters: int = 0

    @classmethod
    def of(cls, report: RunReport) -> Self:
        partitions = () if report.run is None else report.run.partitions
        return cls(
            report.run_id,
            report.reported_ms,
            # One that stands still finds the same again in the next run.
            sum(partition.lost_records for partition in partitions if partition.error is None),
            sum(partition.skipped_records or 0 for partition in partitions),
            sum(partition.dead_letters or 0 for partition in partitions),
        )

    @property
    def any(self) -> bool:
        return bool(self.lost or self.skipped or self.dead_letters)

    def beyond(self, known: RunCounts) -> RunCounts:
        """Without the counts of the same run that are already ``known``."""
        return replace(
            self,
            lost=max(0, self.lost - known.lost),
            skipped=max(0, self.skipped - known.skipped),
            dead_letters=max(0, self.dead_letters - known.dead_letters),
        )


def counts_of(counted: tuple[RunCounts, ...], run_id: str) -> RunCounts | None:
    """What was counted of a run; None where nothing was."""
    return next((counts for counts in counted if counts.run_id == run_id), None)


def uncounted(counted: tuple[RunCounts, ...], report: RunReport) -> RunCounts:
    """The counts of the report that are not counted yet. ``counted``: the oldest first."""
    counts, nothing = RunCounts.of(report), RunCounts(report.run_id, report.reported_ms)
    known = counts_of(counted, report.run_id)
    if known is None and len(counted) >= RUNS_COUNTED and report.reported_ms < counted[0].reported_ms:
        return nothing
    return counts.beyond(known or nothing)


def with_report(counted: tuple[RunCounts, ...], report: RunReport) -> tuple[RunCounts, ...]:
    """What was counted, with the counts of the report added; the oldest first, at most :data:`RUNS_COUNTED`."""
    new = uncounted(counted, report)
    if not new.any:
        return counted
    known = counts_of(counted, report.run_id) or RunCounts(report.run_id, 0)
    mine = RunCounts(
        report.run_id,
        max(known.reported_ms, report.reported_ms),
        known.lost + new.lost,
        known.skipped + new.skipped,
        known.dead_letters + new.dead_letters,
    )
    others = (counts for counts in counted if counts.run_id != report.run_id)
    return tuple(sorted((*others, mine), key=lambda one: one.reported_ms)[-RUNS_COUNTED:])
