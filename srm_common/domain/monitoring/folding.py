"""Folds reports of a flow's runs into its history. The same reports always give the same history, whenever they are
folded, if the clocks that gave them their times were right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from srm_common.domain.monitoring.certificates import later_seen
from srm_common.domain.monitoring.flow_history import SHOWN_MS, TOPICS_NAMED, FlowHistory
from srm_common.domain.monitoring.run_counts import RunCounts, counts_of, uncounted, with_report
from srm_common.domain.monitoring.run_report import RunReport, untranslated
from srm_common.domain.runs.open_transaction import OpenTransaction
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.verification.summary import VerificationSummary
from srm_common.domain.verification.verification import Verdict

T = TypeVar("T")

#: By so much a stored time may be ahead of now: clocks differ, if they are synchronized, by less.
AHEAD_MS = 60_000
#: Every sentence of a run about records that vanished at the source names it (:mod:`srm_common.domain.runs.data_loss`).
_SETTING = "on.data.loss"
#: And this one the sentence about records that transforms could not handle.
_TOLERANCE = "errors.tolerance"


def loss_message(partition_errors: Iterable[str], notes: Iterable[str]) -> str | None:
    """That of the first partition that is stopped because of it, otherwise the first note about where the run
    continued."""
    return next((text for text in (*partition_errors, *notes) if _SETTING in text), None)


def stands_still(error: str | None) -> bool:
    """Whether a partition's error is that it waits for an operator's decision about a loss."""
    return error is not None and _SETTING in error


def too_far_ahead(reported_ms: int | None, now_ms: int) -> bool:
    """Whether a stored report has a time that no right clock can have given it."""
    return reported_ms is not None and reported_ms - now_ms > AHEAD_MS


def fold(history: FlowHistory, report: RunReport, now_ms: int | None = None) -> FlowHistory:
    """The history with one more report.

    One of the newest run replaces what that run had reported before. A late report, after a newer one, does not change
    the current state, but its lost records count. However often and in whatever order a run is reported, each record
    that it lost or left out counts once.

    Args:
        now_ms: the time of folding, in epoch milliseconds. If the newest report is from more than a minute later, one
            of the clocks is wrong, and this report counts as the newest: otherwise nothing new would be known until
            time has caught up. Times of the history that are later than this report's then become its own. Meanwhile a
            report that really is late counts as the newest, too; records count once all the same. None: the times of
            reports are right.
    """
    if now_ms is not None and too_far_ahead(history.reported_ms, now_ms):
        history = history.no_later_than(report.reported_ms)
    if history.reported_ms is not None and report.reported_ms < history.reported_ms:
        if report.run_id == history.run_id:
            return history
        before = history.before
        if before is not None:
            first = before.reported_ms is None
            before = replace(fold(before, report), before=None) if first else _with_late(before, report)
        return replace(_with_late(history, report), before=before)
    if report.run_id == history.run_id and history.before is not None:
        history = history.before
    run, ok = report.run, report.ok
    failed = () if run is None else run.failed_partitions
    new = uncounted(history.counted, report)
    known = replace(
        _with_skipped(_with_loss(history, report, new), report, new),
        counted=with_report(history.counted, report),
        reported_ms=report.reported_ms,
        run_id=report.run_id,
        ok=ok,
        ended_ms=report.ended_ms,
        error=report.error,
        error_kind=None if run is None else run.first_error_kind,
        records=report.data_records if run is None or report.data_records is not None else run.records,
        partitions=0 if run is None else len(run.partitions),
        # What stopped the whole run counts more than what it left of its partitions.
        failed_partitions=0 if report.run_error is not None else len(failed),
        data_topics=history.data_topics if report.data_topics is None else report.data_topics,
        lag=report.lag,
        lag_before=history.lag,
        heartbeat_lag=report.heartbeat_lag,
        heartbeat_lag_before=history.heartbeat_lag,
        lag_over_since_ms=_over_since(history, report),
        **_silence(history, report),
        foreign_writers=history.foreign_writers if run is None else report.foreign_writers,
        certificates=later_seen(history.certificates, report.certificates),
        open_transactions=_open_transactions(history, report),
        schedule_interval_seconds=_from_file(history.schedule_interval_seconds, report.schedule_interval_seconds, run),
        lag_objective_records=_from_file(history.lag_objective_records, report.lag_objective_records, run),
        before=replace(history, before=None),
    )
    if report.verification is not None:
        known = _with_verification(known, report.verification)
        if report.has_figures:
            known = replace(known, uncompared_partitions=report.verification.uncompared)
    if report.tells_groups:
        groups, sentence = untranslated(report.groups)
        known = replace(known, untranslated_groups=groups, untranslated_text=sentence)
    if ok is None:
        return known
    failing = None if ok else history.failing_since_ms or report.ended_ms
    return replace(
        known,
        failing_since_ms=failing,
        good_run_ended_ms=report.ended_ms if ok else history.good_run_ended_ms,
    )


def _with_verification(history: FlowHistory, found: VerificationSummary) -> FlowHistory:
    counts = found.counts
    return replace(
        history,
        copies_differ=found.sentence,
        verified_ms=found.oldest_ms,
        proved_partitions=counts.get(Verdict.PROVED, 0),
        unproved_partitions=counts.get(Verdict.PARTLY, 0) + counts.get(Verdict.FAILED, 0),
        different_partitions=counts.get(Verdict.DIFFERENT, 0),
    )


def _from_file(before: T | None, reported: T | None, run: RunRecord | None) -> T | None:
    """A report that has no run may be made without a look at the file."""
    return before if reported is None and run is None else reported


def _silence(history: FlowHistory, report: RunReport) -> dict[str, Any]:
    """That of the report; as before where it could not look. A flow that is new, or whose first runs were limited to
    other topics, may take as long to bring its first heartbeat as others may take to bring another."""
    beats = report.heartbeats
    if beats is None or (beats.fault is not None and beats.silent_after_ms is not None):
        return {}
    if beats.silence is None or beats.silent_after_ms is None or beats.age_ms is not None:
        return {"heartbeat_silence": beats.silence, "no_heartbeat_since_ms": None}
    since = history.no_heartbeat_since_ms or report.reported_ms
    if history.heartbeat_silence is not None and history.no_heartbeat_since_ms is None:
        # Raised already, by an earlier version or before the topic was made again: it stays so in later reports, too.
        since = report.reported_ms - beats.silent_after_ms - 1
    late = report.reported_ms - since > beats.silent_after_ms
    return {"heartbeat_silence": beats.silence if late else None, "no_heartbeat_since_ms": since}


def _open_transactions(history: FlowHistory, report: RunReport) -> tuple[OpenTransaction, ...]:
    """Those of the run; one that was stopped may not have come to look."""
    found = () if report.run is None else report.run.open_transactions
    return history.open_transactions if not found and report.run_error is not None else found


def _over_since(history: FlowHistory, report: RunReport) -> int | None:
    lag = report.lag
    objective = _from_file(history.lag_objective_records, report.lag_objective_records, report.run)
    if objective is None:
        return None
    if lag is not None and lag.least > objective:
        return history.lag_over_since_ms or report.reported_ms
    within = lag is not None and lag.most is not None
    return None if within else history.lag_over_since_ms


def _with_loss(history: FlowHistory, report: RunReport, new: RunCounts) -> FlowHistory:
    """``new``: records skipped by partitions that are not counted yet."""
    run = report.run
    if run is None:
        return replace(history, lost_now=0)
    held = sum(partition.lost_records for partition in run.partitions if partition.error is not None)
    now = sum(partition.lost_records for partition in run.partitions)
    losing = history.losing and report.ok is not True
    if not now:
        return replace(history, lost_now=0, losing=losing, lost_held=history.lost_held if losing else 0)
    begun = history
    if not history.losing:
        # What an earlier report of the same run, which came late, has told is of this loss, too.
        known = counts_of(history.counted, report.run_id)
        begun = replace(history, lost_records=known.lost if known else 0, lost_held=0, lost_since_ms=None)
    # A partition that the run did not look at stands where it stood.
    if any(stands_still(partition.error) and not partition.lost_records for partition in run.partitions):
        held = max(held, begun.lost_held)
    lost = begun.lost_records - begun.lost_held + max(begun.lost_held, held + new.lost)
    return replace(
        begun,
        losing=True,
        lost_now=now,
        # What was counted of this run may be of a loss that was over.
        lost_records=max(lost, now),
        lost_held=held,
        lost_since_ms=begun.lost_since_ms or report.reported_ms,
        lost_ms=report.reported_ms,
        lost_text=loss_message((partition.trouble for partition in run.failed_partitions), run.notes),
    )


def _with_skipped(history: FlowHistory, report: RunReport, new: RunCounts) -> FlowHistory:
    if report.run is None or not new.skipped:
        return history
    newest = history.skipped_ms
    if newest is not None and abs(report.reported_ms - newest) >= SHOWN_MS:
        if report.reported_ms < newest:
            return history
        history = replace(history, skipped_records=0, dead_letters=0, skipped_since_ms=None, skipped_topics=())
    late = newest is not None and report.reported_ms < newest
    text = next((note for note in report.run.notes if _TOLERANCE in note), None)
    topics = (partition.upstream_topic for partition in report.run.partitions if partition.skipped_records)
    return replace(
        history,
        skipped_topics=tuple(dict.fromkeys((*history.skipped_topics, *topics)))[: TOPICS_NAMED + 1],
        skipped_records=history.skipped_records + new.skipped,
        dead_letters=history.dead_letters + new.dead_letters,
        skipped_since_ms=min(history.skipped_since_ms or report.reported_ms, report.reported_ms),
        skipped_ms=newest if late else report.reported_ms,
        skipped_text=history.skipped_text if late else text,
    )


def _with_late(history: FlowHistory, report: RunReport) -> FlowHistory:
    new = uncounted(history.counted, report)
    history = replace(_with_skipped(history, report, new), counted=with_report(history.counted, report))
    if report.ok and (history.good_run_ended_ms or 0) < report.ended_ms:
        history = replace(history, good_run_ended_ms=report.ended_ms)
    # What still stands has been found again since.
    if report.run is None or not new.lost:
        return history
    return replace(
        history,
        lost_records=history.lost_records + new.lost,
        lost_since_ms=min(history.lost_since_ms or report.reported_ms, report.reported_ms),
        lost_ms=max(history.lost_ms or 0, report.reported_ms),
        lost_text=history.lost_text or loss_message((), report.run.notes),
    )
