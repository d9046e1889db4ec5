"""The history of a flow: the newest runs, since when it fails or lags, what it lost.

Everything that shows or judges a flow reads its past from this history only: alarms, the page, REST,
Prometheus, ``status`` and ``top``. It is folded from reports (:mod:`srm_common.domain.monitoring.folding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Self

from srm_common.domain.amount import Amount
from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.domain.monitoring.run_counts import RunCounts
from srm_common.domain.runs.open_transaction import OpenTransaction

#: For so long a flow is said to have lost, or left out, records, although its runs are good again.
SHOWN_MS = 24 * 3600 * 1000
#: So many topics of skipped records the history names; with one more there are others.
TOPICS_NAMED = 3


@dataclass(frozen=True, slots=True)
class FlowHistory:
    """After the report of ``run_id`` at ``reported_ms``; without any report all is None. Times are epoch milliseconds.

    Of that report: ``ok`` whether the run was good (None while it is active), ``error`` why not, in one sentence, and
    its class ``error_kind``; ``ended_ms``; ``records`` it copied, other than heartbeats; ``lost_now`` records that it
    found lost; ``partitions`` and how many of them failed, 0 where something stopped the whole run. ``data_topics``:
    topics other than heartbeats, as last reported. ``lag`` is None where the run could not look, ``lag_before`` that of
    the report before; ``heartbeat_lag`` and ``heartbeat_lag_before`` of these are heartbeats. ``heartbeat_silence``,
    ``foreign_writers``, ``untranslated_text`` are sentences. Since the report of ``no_heartbeat_since_ms`` heartbeats
    are expected of which none has ever come.

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
    heartbeat_lag: int = 0
    heartbeat_lag_before: int = 0
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
    no_heartbeat_since_ms: int | None = None
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

    def no_later_than(self, at_ms: int) -> Self:
        """With ``at_ms`` in place of each time after it."""
        late: dict[str, Any] = {
            name: at_ms
            for name in _DEFAULTS
            if name.endswith("_ms") and (time_ms := getattr(self, name)) is not None and time_ms > at_ms
        }
        counted = tuple(replace(counts, reported_ms=min(counts.reported_ms, at_ms)) for counts in self.counted)
        before = None if self.before is None else self.before.no_later_than(at_ms)
        return replace(self, **late, counted=counted, before=before)

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
