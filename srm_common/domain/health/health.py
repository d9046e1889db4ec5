"""The health of a flow: one state with its cause, since when, and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from srm_common.domain.amount import Amount
from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.domain.runs.open_transaction import OpenTransaction


class HealthState(StrEnum):
    """In order of urgency, worst first."""

    LOST_DATA = "lost_data"
    FAILING = "failing"
    STALLED = "stalled"
    UNKNOWN = "unknown"
    NOT_RUN = "not_run"
    CATCHING_UP = "catching_up"
    RUNNING = "running"
    HEARTBEAT_ONLY = "heartbeat_only"
    IDLE = "idle"
    PAUSED = "paused"


class Action(StrEnum):
    """The buttons of the page; named like the REST API's writes."""

    RESUME = "resume"
    RUN_NOW = "run"
    EDIT_FILTERS = "filters"
    FAILOVER = "failover"


@dataclass(frozen=True, slots=True)
class Help:
    """What to do: one sentence, a command that can be pasted, a button; and the anchor in docs/operations.md."""

    text: str
    command: str | None = None
    action: Action | None = None
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """``cause`` is one sentence that names component and error; ``since_ms`` epoch milliseconds, None if not known.
    ``error_kind``: the error's class in :mod:`srm_common.errors`, where the state comes from an error that has one."""

    state: HealthState
    cause: str
    since_ms: int | None = None
    help: Help | None = None
    error_kind: str | None = None


class AlarmKind(StrEnum):
    LAG_OBJECTIVE = "lag_objective"
    STALLED = "stalled"
    HEARTBEAT_ABSENT = "heartbeat_absent"
    LOST_DATA = "lost_data"
    UNTRANSLATED_GROUPS = "untranslated_groups"
    FOREIGN_WRITER = "foreign_writer"
    SKIPPED_RECORDS = "skipped_records"
    CERTIFICATE_EXPIRY = "certificate_expiry"
    OPEN_TRANSACTION = "open_transaction"
    COPIES_DIFFER = "copies_differ"


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that needs attention. ``text`` is one sentence with the figures. ``news`` is what is worth telling
    again if it changes while the alarm is raised; empty if nothing is."""

    kind: AlarmKind
    severity: Severity
    flow: str
    text: str
    since_ms: int | None = None
    help: Help | None = None
    news: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that health is judged by. Times are epoch milliseconds, None if unknown.

    ``paused`` as the scheduler has it (None: unknown), or because the flow is ``disabled``: the file says that no run
    of it is scheduled. ``misconfigured`` is the error in the file that disables the flow. ``last_run_*`` describe the
    newest reported run, ``running_since_ms`` one that is active. ``last_run_records`` are not heartbeats;
    ``heartbeat_lag`` of the lag is, ``heartbeat_lag_before`` of the lag before.
    ``failing_since_ms`` is the first failed run after the last good one. ``store_fault``: the history cannot be read.
    ``heartbeat_silence``, ``untranslated_groups``, ``foreign_writers``, ``copies_differ`` as reported last.
    ``last_run_lost_records`` were lost in the newest run, ``lost_records`` by the newest loss as a whole, which was
    last seen at ``lost_ms``; for ``lost_held`` of them partitions stand still. The ``skipped_`` fields and
    ``dead_letters`` are those of :class:`FlowHistory`; ``dead_letter_topic`` is the one in the file, empty without one.
    ``certificates`` and ``open_transactions`` are those of the history. ``lag`` and ``lag_before`` may be known in
    part.
    ``data_topics``: topics that are copied and are not heartbeats.
    ``run_limit_seconds``: Airflow ends a task that takes longer; None: never. ``due_since_ms``: before that no run was
    due, since the flow was paused or new. ``quiet_since_ms``: since when none of its tasks is running, if that is
    observed repeatedly, and ``waiting`` why.
    """

    flow: str
    now_ms: int
    paused: bool | None = None
    disabled: bool = False
    misconfigured: str | None = None
    schedule_interval_seconds: float | None = None
    run_max_seconds: float = 0.0
    lag_objective_records: int | None = None
    stalled_after_seconds: float | None = None
    running_since_ms: int | None = None
    last_run_id: str | None = None
    last_run_ok: bool | None = None
    last_run_ended_ms: int | None = None
    last_run_error: str | None = None
    last_run_records: int | None = None
    failed_partitions: int = 0
    partitions: int = 0
    lost_records: int = 0
    lost_since_ms: int | None = None
    lost_text: str | None = None
    failing_since_ms: int | None = None
    good_run_ended_ms: int | None = None
    lag: Amount | None = None
    lag_before: Amount | None = None
    heartbeat_lag: int = 0
    lag_over_since_ms: int | None = None
    heartbeat_silence: str | None = None
    untranslated_groups: int = 0
    untranslated_text: str | None = None
    foreign_writers: str | None = None
    copies_differ: str | None = None
    store_fault: str | None = None
    schedule_fault: str | None = None
    reported_ms: int | None = None
    running_run_id: str | None = None
    next_run_ms: int | None = None
    last_run_lost_records: int = 0
    run_limit_seconds: float | None = None
    due_since_ms: int | None = None
    quiet_since_ms: int | None = None
    waiting: str | None = None
    last_run_error_kind: str | None = None
    lost_ms: int | None = None
    lost_held: int = 0
    data_topics: int | None = None
    skipped_records: int = 0
    dead_letters: int = 0
    skipped_since_ms: int | None = None
    skipped_ms: int | None = None
    skipped_text: str | None = None
    skipped_topics: tuple[str, ...] = ()
    dead_letter_topic: str = ""
    certificates: tuple[CertificateEnd, ...] = ()
    certificate_warning_days: float = 30
    open_transactions: tuple[OpenTransaction, ...] = ()
    open_transaction_alarm_seconds: float = 1200
    heartbeat_lag_before: int = 0


# Flow health, in one line of a list.


URGENCY = {state: rank for rank, state in enumerate(HealthState)}


@dataclass(frozen=True, slots=True)
class FlowLine:
    """Figures are None where they are not known. ``byte_rate`` and ``record_rate`` are per second of copying,
    ``latency_ms`` the average from a record's timestamp to its commit; ``latency_percentiles_ms`` what 50, 95 and 99
    of 100 records did not exceed. ``reported_ms``: when they were taken, in epoch milliseconds. ``lag`` and
    ``behind_ms``, how old the oldest record is that is not copied, were taken at ``lag_ms``; ``lag_fault`` says why
    nothing newer is known. ``asked``: the source of the other fields, None if there was none."""

    flow: str
    health: Health
    alarms: tuple[Alarm, ...] = ()
    lag: Amount | None = None
    byte_rate: float | None = None
    record_rate: float | None = None
    latency_ms: float | None = None
    partitions: int | None = None
    failed_partitions: int | None = None
    reported_ms: int | None = None
    asked: Literal["history", "clusters"] | None = None
    lag_ms: int | None = None
    behind_ms: float | None = None
    lag_fault: str | None = None
    latency_percentiles_ms: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def urgent(self) -> bool:
        """Whether the flow needs an operator to copy everything again."""
        return self.health.state in (HealthState.LOST_DATA, HealthState.FAILING, HealthState.STALLED)

    @property
    def unknown(self) -> bool:
        """Whether nobody who knows the flow's state could be asked."""
        return self.health.state is HealthState.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """``lag`` is null if it is not known exactly; ``lag_bounds`` has what is known."""
        bounds = None if self.lag is None else self.lag.to_json()
        return {**asdict(self), "lag": None if self.lag is None else self.lag.most, "lag_bounds": bounds}


def by_urgency(line: FlowLine) -> tuple[int, str]:
    """To sort by: flows in the worst state first."""
    return URGENCY[line.health.state], line.flow


# How long a flow may be silent before it counts as stalled.


#: A flow is never called stalled sooner, as Airflow itself may need so long to start a task.
PATIENCE_SECONDS = 120.0
#: Schedule periods that may pass without a run: one is due, one is late, two were slow.
PERIODS = 4


def stalled_after(
    explicit_seconds: float | None, schedule_interval_seconds: float | None, run_max_seconds: float
) -> float | None:
    """Seconds after the end of a run within which the next one must have ended (``stalled.after.seconds``).

    ``explicit_seconds`` None stands for ``auto``: four periods of the schedule, two minutes at least. A period is as
    long as the interval or, where that is longer, a run. None where no schedule is known, so that nothing can be due.
    """
    if explicit_seconds is not None:
        return explicit_seconds
    if schedule_interval_seconds is None:
        return None
    return max(PATIENCE_SECONDS, PERIODS * max(schedule_interval_seconds, run_max_seconds))


def deadline_seconds(seen: Observation) -> float | None:
    """:func:`stalled_after` for an observed flow."""
    return stalled_after(seen.stalled_after_seconds, seen.schedule_interval_seconds, seen.run_max_seconds)


def overdue_since(seen: Observation) -> int | None:
    """Since when the flow has not reported, if that is longer than allowed; otherwise None.

    An active run may take as long as Airflow lets it; one that waits for its turn is not active.
    """
    allowed = deadline_seconds(seen)
    if seen.running_since_ms is not None and not long_idle(seen):
        if seen.run_limit_seconds is None:
            return None
        limit = seen.run_limit_seconds + (allowed or PATIENCE_SECONDS)
        return seen.running_since_ms if seen.now_ms - seen.running_since_ms > limit * 1000 else None
    ended = seen.last_run_ended_ms
    if allowed is None or ended is None or seen.now_ms - ended <= allowed * 1000:
        return None
    return ended


def report_late(seen: Observation) -> bool:
    """Whether the next report, good or bad, is overdue."""
    allowed, reported = deadline_seconds(seen), seen.reported_ms
    return allowed is not None and reported is not None and seen.now_ms - reported > allowed * 1000


def long_running(seen: Observation) -> bool:
    """Whether a run takes longer than the next one should be waited for."""
    allowed, since = deadline_seconds(seen), seen.running_since_ms
    return allowed is not None and since is not None and seen.now_ms - since > allowed * 1000


def long_idle(seen: Observation) -> bool:
    """Whether no task has been running for longer than a pause between two tasks or a start of Airflow."""
    allowed, since = deadline_seconds(seen), seen.quiet_since_ms
    return since is not None and seen.now_ms - since > min(allowed or PATIENCE_SECONDS, PATIENCE_SECONDS) * 1000
