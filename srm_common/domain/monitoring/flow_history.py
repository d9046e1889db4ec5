"""The history of a flow, folded from its reports: the newest runs, since when it fails or lags, what it lost.

Everything that shows or judges a flow reads its past from this history only: alarms, the page, REST,
Prometheus, ``status`` and ``top``. Since it is folded from reports, the same reports always give the same history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Self, TypeVar

from srm_common.domain.amount import Amount
from srm_common.domain.monitoring.certificates import CertificateEnd, later_seen
from srm_common.domain.monitoring.run_counts import RunCounts, counts_of, uncounted, with_report
from srm_common.domain.monitoring.run_report import RunReport, untranslated
from srm_common.domain.runs.open_transaction import OpenTransaction
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.verification.summary import VerificationSummary
from srm_common.domain.verification.verification import Verdict

T = TypeVar("T")

#: Every sentence of a run about records that vanished at the source names it (:mod:`srm_common.domain.runs.data_loss`).
_SETTING = "on.data.loss"
#: And this one the sentence about records that transforms could not handle.
_TOLERANCE = "errors.tolerance"
#: For so long a flow is said to have lost, or left out, records, although its runs are good again.
SHOWN_MS = 24 * 3600 * 1000
#: So many topics of skipped records the history names; with one more there are others.
TOPICS_NAMED = 3


def loss_message(partition_errors: Iterable[str], notes: Iterable[str]) -> str | None:
    """That of the first partition that is stopped because of it, otherwise the first note about where the run
    continued."""
    return next((text for text in (*partition_errors, *notes) if _SETTING in text), None)


def stands_still(error: str | None) -> bool:
    """Whether a partition's error is that it waits for an operator's decision about a loss."""
    return error is not None and _SETTING in error


@dataclass(frozen=True, slots=True)
class FlowHistory:
    """After the report of ``run_id`` at ``reported_ms``; without any report all is None. Times are epoch milliseconds.

    Of that report: ``ok`` whether the run was good (None while it is active), ``error`` why not, in one sentence, and
    its class ``error_kind``; ``ended_ms``; ``records`` it copied; ``lost_now`` records that it found lost;
    ``partitions`` and how many of them failed, 0 where something stopped the whole run. ``data_topics``: topics other
    than heartbeats, as last reported. ``lag`` is None where the run could not look, ``lag_before`` that of the
    report before. ``heartbeat_silence``, ``foreign_writers``, ``untranslated_text`` are sentences.

    ``copies_differ`` is what the newest verification says of differences, which ``different_partitions`` have;
    ``proved_partitions`` are proved, ``unproved_partitions`` only in part, or could not be read, and
    ``uncompared_partitions`` have records that no verification has compared. Each of the others was compared at
    ``verified_ms`` or later.

    ``failing_since_ms`` is the end of the first bad run after the last good one; ``lag_over_since_ms`` since when the
    lag is over ``lag_objective_records``. A lag that is unknown in part and not over it for certain is no reason to
    call it small: then what held before continues.

    The ``lost_`` fields are of the newest loss. It began at ``lost_since_ms``, was seen last at ``lost_ms`` and
    continues (``losing``) until a good run finds nothing lost. ``lost_records`` is how many records it has cost: each
    run that continues past a gap has lost other records than the one before it, so these add up; a partition that
    stands still for a gap (``lost_held`` records) finds the same ones again in every run, and once more when it
    continues, so they count once.

    ``skipped_records`` transforms could not handle since ``skipped_since_ms``, ``dead_letters`` of them are in the dead
    letter topic. Runs count together unless a day passes without any; the newest was at ``skipped_ms``. They are of
    the upstream topics ``skipped_topics``, of which the history keeps :data:`TOPICS_NAMED` and one more.

    What a report could not look at stays as it was: it is no reason to call an alarm resolved. So does what the file
    says of the flow where nothing but the fault of a run is known.

    ``certificates`` has of each cluster which certificate ends first, as seen last. ``open_transactions`` are those at
    the source that held partitions back when the last run ended.

    ``counted`` has what was counted of each of the newest runs that lost or left out records, by which a run that is
    reported again counts once; what a run tells that is older than all of them is not counted.

    ``before`` is the history without the newest report, by which the same run can be reported again.
    """

    reported_ms: int | None = None
    run_id: str | None = None
    ok: bool | None = None
    ended_ms: int | None = None
    error: str | None = None
    error_kind: str | None = None
    records: int | None = None
    partitions: int = 0
    failed_partitions: int = 0
    data_topics: int | None = None
    lag: Amount | None = None
    lag_before: Amount | None = None
    good_run_ended_ms: int | None = None
    failing_since_ms: int | None = None
    lag_over_since_ms: int | None = None
    losing: bool = False
    lost_now: int = 0
    lost_records: int = 0
    lost_held: int = 0
    lost_since_ms: int | None = None
    lost_ms: int | None = None
    lost_text: str | None = None
    heartbeat_silence: str | None = None
    untranslated_groups: int = 0
    untranslated_text: str | None = None
    foreign_writers: str | None = None
    copies_differ: str | None = None
    verified_ms: int | None = None
    proved_partitions: int = 0
    unproved_partitions: int = 0
    different_partitions: int = 0
    uncompared_partitions: int = 0
    skipped_records: int = 0
    dead_letters: int = 0
    skipped_since_ms: int | None = None
    skipped_ms: int | None = None
    skipped_text: str | None = None
    skipped_topics: tuple[str, ...] = ()
    schedule_interval_seconds: float | None = None
    lag_objective_records: int | None = None
    certificates: tuple[CertificateEnd, ...] = ()
    open_transactions: tuple[OpenTransaction, ...] = ()
    counted: tuple[RunCounts, ...] = ()
    before: FlowHistory | None = None

    def to_json(self) -> dict[str, Any]:
        """What ``json.dumps`` takes; fields as they are without any report are left out. The inverse of
        :meth:`from_json`."""
        found: dict[str, Any] = {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                found[name] = value.to_json() if isinstance(value, FlowHistory | Amount) else value
        if self.skipped_topics:
            found["skipped_topics"] = list(self.skipped_topics)
        for name in ("certificates", "open_transactions", "counted"):
            if name in found:
                found[name] = [list(astuple(one)) for one in found[name]]
        return found

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What :meth:`to_json` made, also by older or newer software: unknown fields are left out. Raises ValueError,
        TypeError or KeyError for what is not a history."""
        if not isinstance(document, Mapping):
            raise TypeError(f"{document!r} is not a history")
        values = {name: document[name] for name in _DEFAULTS if document.get(name) is not None}
        for name in ("lag", "lag_before"):
            # A plain number, as it was kept before.
            if name in values and not isinstance(values[name], int):
                values[name] = Amount.from_json(values[name])
            elif name in values:
                values[name] = Amount.exactly(values[name])
        if "skipped_topics" in values:
            values["skipped_topics"] = tuple(map(str, values["skipped_topics"]))
        if "certificates" in values:
            values["certificates"] = tuple(map(CertificateEnd.of_row, values["certificates"]))
        if "open_transactions" in values:
            values["open_transactions"] = tuple(map(OpenTransaction.of_row, values["open_transactions"]))
        if "counted" in values:
            values["counted"] = tuple(RunCounts(*row[: len(fields(RunCounts))]) for row in values["counted"])
        if "before" in values:
            values["before"] = cls.from_json(values["before"])
        for name, value in values.items():
            kind = _KINDS.get(name)
            if kind is not None and not isinstance(value, kind):
                raise TypeError(f"{name} of a history cannot be {value!r}")
        if "ok" not in document and ("failing_since_ms" in values or "good_run_ended_ms" in values):
            values["ok"] = "failing_since_ms" not in values
        if "lost_since_ms" in values:
            values.setdefault("lost_ms", values["lost_since_ms"])
        return cls(**values)


_DEFAULTS = {field.name: field.default for field in fields(FlowHistory)}
_TEXTS = (
    "run_id",
    "error",
    "error_kind",
    "lost_text",
    "heartbeat_silence",
    "untranslated_text",
    "foreign_writers",
    "copies_differ",
    "skipped_text",
)
_KINDS: dict[str, Any] = {
    **dict.fromkeys(_DEFAULTS, int),
    **dict.fromkeys(_TEXTS, str),
    "schedule_interval_seconds": int | float,
    "lag": Amount,
    "lag_before": Amount,
    "skipped_topics": tuple,
    "certificates": tuple,
    "open_transactions": tuple,
    "counted": tuple,
    "before": FlowHistory,
}


#: Before the first report.
NO_RUNS = FlowHistory()


def fold(history: FlowHistory, report: RunReport) -> FlowHistory:
    """The history with one more report.

    One of the newest run replaces what that run had reported before. A late report, after a newer one, does not change
    the current state, but its lost records count. However often and in whatever order a run is reported, each record
    that it lost or left out counts once.
    """
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
        records=None if run is None else run.records,
        partitions=0 if run is None else len(run.partitions),
        # What stopped the whole run counts more than what it left of its partitions.
        failed_partitions=0 if report.run_error is not None else len(failed),
        data_topics=history.data_topics if report.data_topics is None else report.data_topics,
        lag=report.lag,
        lag_before=history.lag,
        lag_over_since_ms=_over_since(history, report),
        heartbeat_silence=_silence(history, report),
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


def _silence(history: FlowHistory, report: RunReport) -> str | None:
    """That of the report; as before where it could not look."""
    beats = report.heartbeats
    if beats is None or (beats.fault is not None and beats.silent_after_ms is not None):
        return history.heartbeat_silence
    return beats.silence


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
