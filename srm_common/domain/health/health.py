"""One model of how a flow does, with the cause, since when, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from srm_common.domain.amount import Amount


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
    """What the page offers as a button; the names of the REST API's writes."""

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


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that somebody should look at. ``text`` is one sentence with the figures."""

    kind: AlarmKind
    severity: Severity
    flow: str
    text: str
    since_ms: int | None = None
    help: Help | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """All that health is judged by. Times are epoch milliseconds, None where not known.

    ``paused`` and ``enabled`` as the scheduler has them (None: nobody could be asked); ``misconfigured`` is the
    sentence that stops the flow. ``last_run_*`` describe the newest reported run, ``running_since_ms`` one that is at
    work now. ``failing_since_ms`` is the first failed run after the last good one. ``store_fault``: the history cannot
    be read. ``heartbeat_silence``, ``untranslated_groups``, ``foreign_writers`` as reported last.
    ``last_run_lost_records`` were lost in the newest run, ``lost_records`` by the newest loss as a whole, which was
    seen last at ``lost_ms``. ``lag`` and ``lag_before`` may be known in part. ``data_topics``: topics that are copied
    and are not heartbeats. ``run_limit_seconds``: Airflow ends a task that takes longer; None: never. ``due_since_ms``:
    before that nothing was due of the flow, which was paused or new. ``quiet_since_ms``: since when nothing of it is at
    work, where somebody looks again and again, and ``waiting`` why not.
    """

    flow: str
    now_ms: int
    paused: bool | None = None
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
    lag_over_since_ms: int | None = None
    heartbeat_silence: str | None = None
    untranslated_groups: int = 0
    untranslated_text: str | None = None
    foreign_writers: str | None = None
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
    data_topics: int | None = None
