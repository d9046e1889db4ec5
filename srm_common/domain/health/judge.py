"""Judges the health of a flow from an observation of its history, scheduler and settings: one state with its cause, and
its alarms.

docs/operations.md describes the same rules for operators; keep both in agreement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from srm_common.domain.amount import NONE, counted, duration
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.alarms import (
    ENABLE,
    MEND_THE_FILE,
    behind,
    help_with,
    lost_records,
    over_by,
    over_objective,
    raised,
    records,
)
from srm_common.domain.health.health import (
    Alarm,
    Health,
    HealthState,
    Observation,
    deadline_seconds,
    long_idle,
    long_running,
    overdue_since,
)
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.domain.monitoring.schedule import ScheduledFlow, not_scheduled
from srm_common.errors import ConfigError, DataLost


class Verdict(NamedTuple):
    """``alarms`` are sorted: critical ones first, then in the order of :class:`AlarmKind`."""

    health: Health
    alarms: list[Alarm]


def judge(seen: Observation) -> Verdict:
    """The state of a flow and its alarms. Of several states that apply, the first of these counts:
    misconfigured (failing), paused, lost data, failing, unknown, not run, stalled, catching up, heartbeat only,
    running, idle.

    A paused flow is called paused whatever its last run did, since nothing will change until it is resumed; the cause
    says how that run ended, and alarms about lost data stay.
    """
    return Verdict(_health(seen), raised(seen))


def _health(seen: Observation) -> Health:
    if seen.misconfigured is not None:
        cause = f"the configuration disables the flow: {seen.misconfigured}"
        made = _made(seen, HealthState.FAILING, cause, seen.failing_since_ms)
        mend = replace(help_with(HealthState.FAILING, seen.flow), text=MEND_THE_FILE, action=None)
        return replace(made, help=mend, error_kind=ConfigError.__name__)
    if seen.disabled:
        made = _made(seen, HealthState.PAUSED, not_scheduled(FlowName.parse(seen.flow)) + _at_last(seen), None)
        return replace(made, help=replace(help_with(HealthState.PAUSED, seen.flow), text=ENABLE, action=None))
    if seen.paused:
        return _made(seen, HealthState.PAUSED, f"the flow is paused in Airflow{_at_last(seen)}", None)
    lost = _lost(seen)
    if lost is not None:
        made = _made(seen, HealthState.LOST_DATA, lost, seen.lost_since_ms or seen.failing_since_ms)
        return replace(made, error_kind=DataLost.__name__)
    if seen.last_run_ok is False:
        made = _made(seen, HealthState.FAILING, _failure(seen), seen.failing_since_ms or seen.last_run_ended_ms)
        return replace(made, error_kind=seen.last_run_error_kind)
    return _unknown(seen) or _stalled(seen) or _behind(seen) or _fine(seen)


def _made(seen: Observation, state: HealthState, cause: str, since_ms: int | None) -> Health:
    return Health(state, cause, since_ms, help_with(state, seen.flow))


def _at_last(seen: Observation) -> str:
    if seen.running_since_ms is not None:
        run = f"run {seen.running_run_id}" if seen.running_run_id else "a run"
        return f"; of {run}, the current task continues to its end, and the others wait until the flow is resumed"
    if seen.last_run_ok is False:
        return f"; its last run failed: {_failure(seen)}"
    if seen.last_run_ended_ms is None:
        return "; no run of it has been reported yet" if _never_reported(seen) else ""
    return f"; its last run ended {_ago(seen, seen.last_run_ended_ms)}"


def _never_reported(seen: Observation) -> bool:
    return seen.store_fault is None and seen.reported_ms is None and seen.last_run_ended_ms is None


def _lost(seen: Observation) -> str | None:
    count = lost_records(seen)
    if not count:
        return None
    # The partition's message says where and how; repeating it would hide the rest.
    if seen.lost_text:
        return f"{records(count)} lost: {seen.lost_text}"
    return f"{records(count)} disappeared at the source before they were copied"


def _failure(seen: Observation) -> str:
    if seen.failed_partitions:
        first = f", the first {seen.last_run_error}" if seen.last_run_error else ""
        return f"{seen.failed_partitions} of {counted(seen.partitions, 'partition')} failed{first}"
    # The reason comes first: lists truncate, and the run id does not help to understand the failure.
    if seen.last_run_error:
        return f"the last run failed: {seen.last_run_error}"
    return f"{f'run {seen.last_run_id}' if seen.last_run_id else 'the last run'} failed without a reason"


def _unknown(seen: Observation) -> Health | None:
    if seen.store_fault is not None and seen.last_run_ended_ms is None:
        return _made(seen, HealthState.UNKNOWN, f"the history of runs cannot be read: {seen.store_fault}", None)
    if seen.reported_ms is None and seen.last_run_ended_ms is None:
        if seen.running_since_ms is not None:
            cause = f"its first run has been active for {_span(seen, seen.running_since_ms)}"
            return _made(seen, HealthState.RUNNING, cause, seen.running_since_ms)
        due = "" if seen.next_run_ms is None else f"; the next is due {_due(seen, seen.next_run_ms)}"
        fault = f"; Airflow cannot be queried: {seen.schedule_fault}" if seen.schedule_fault else ""
        return _made(seen, HealthState.NOT_RUN, f"no run of the flow has been reported yet{due}{fault}", None)
    if seen.schedule_fault is not None and overdue_since(seen) is not None:
        cause = (
            f"no run has ended for {_span(seen, seen.last_run_ended_ms)}, and it is unknown whether the flow is "
            f"paused: {seen.schedule_fault}"
        )
        return _made(seen, HealthState.UNKNOWN, cause, seen.last_run_ended_ms)
    return None


def _stalled(seen: Observation) -> Health | None:
    since = overdue_since(seen)
    if since is None:
        return None
    if seen.running_since_ms is not None and not long_idle(seen):
        cause = (
            f"run {seen.running_run_id or 'of the flow'} has been active for {_span(seen, seen.running_since_ms)}, "
            f"longer than task.execution.timeout.seconds allows"
        )
        return _made(seen, HealthState.STALLED, cause, seen.running_since_ms)
    allowed = deadline_seconds(seen)
    cause = f"no run has ended for {_span(seen, since)}, although one should every {duration((allowed or 0) * 1000)}"
    cause += f"; {seen.waiting}" if seen.waiting else ""
    return _made(seen, HealthState.STALLED, cause, since)


def _behind(seen: Observation) -> Health | None:
    lag, before = seen.lag or NONE, seen.lag_before
    if over_objective(seen):
        more = "when last known, more" if seen.lag is None else "more"
        cause = f"{over_by(seen)}, {more} than the objective of {seen.lag_objective_records:,}{_trend(seen)}"
        return _made(seen, HealthState.CATCHING_UP, cause, seen.lag_over_since_ms)
    # A run of a busy flow always leaves what arrived while it ran; more than one run copies is a backlog.
    growing = before is None or before.most is None or before.most > seen.heartbeat_lag_before
    if seen.lag_objective_records is None and lag.least - seen.heartbeat_lag > (seen.last_run_records or 0) and growing:
        cause = f"{behind(lag)}, more than the last run copied{_trend(seen)}"
        return _made(seen, HealthState.CATCHING_UP, cause, seen.lag_over_since_ms)
    if seen.running_since_ms is not None and long_running(seen):
        then = f"; {behind(lag)} before it" if lag.most != 0 else ""
        cause = f"its run has been active for {_span(seen, seen.running_since_ms)}{then}"
        made = _made(seen, HealthState.CATCHING_UP, cause, seen.running_since_ms)
        # Another run would only wait for this one.
        return replace(made, help=None if made.help is None else replace(made.help, action=None))
    return None


def _fine(seen: Observation) -> Health:
    ended = "" if seen.last_run_ended_ms is None else f", {_ago(seen, seen.last_run_ended_ms)}"
    if seen.data_topics == 0:
        what = "only heartbeats are copied" if seen.partitions else "nothing is copied, not even heartbeats"
        cause = f"{what}: the flow's filters select no topic of the source; the last run ended{ended[1:]}"
        return _made(seen, HealthState.HEARTBEAT_ONLY, cause, None)
    lag = seen.lag or NONE
    # Heartbeats always come, and some between the end of a run and its report.
    nothing = lag.most is not None and lag.most <= seen.heartbeat_lag
    if not seen.last_run_records and nothing and seen.running_since_ms is None:
        cause = f"the last run found nothing new at the source{ended}{_held(seen)}"
        return _made(seen, HealthState.IDLE, cause, None)
    unknown = f"; the lag is unknown in {lag.unknown} of {counted(lag.parts, 'partition')}" if lag.unknown else ""
    cause = f"the last run copied {records(seen.last_run_records or 0)}{ended}{unknown}{_held(seen)}"
    return _made(seen, HealthState.RUNNING, cause, seen.running_since_ms)


def _held(seen: Observation) -> str:
    held = seen.open_transactions
    if not held:
        return ""
    where = str(held[0].place) if len(held) == 1 else counted(len(held), "partition")
    return f"; records of {where} wait for the end of {'a transaction' if len(held) == 1 else 'transactions'}"


def _trend(seen: Observation) -> str:
    lag, before = seen.lag, seen.lag_before
    if lag is None or before is None or lag.most is None or before.most is None:
        return ""
    if lag.least < before.least:
        return f"; {before.least - lag.least:,} fewer than the run before"
    return f"; {lag.least - before.least:,} more than the run before" if lag.least > before.least else ""


def _span(seen: Observation, since_ms: int | None) -> str:
    return duration(seen.now_ms - (since_ms if since_ms is not None else seen.now_ms))


def _ago(seen: Observation, then_ms: int) -> str:
    return f"{_span(seen, then_ms)} ago"


def _due(seen: Observation, then_ms: int) -> str:
    return "now" if then_ms <= seen.now_ms else f"in {duration(then_ms - seen.now_ms)}"


def observe(
    flow: FlowName,
    history: FlowHistory | None,
    settings: FlowSettings | None,
    schedule: ScheduledFlow | None,
    now_ms: int,
    store_fault: str | None = None,
    schedule_fault: str | None = None,
    misconfigured: str | None = None,
) -> Observation:
    """What is known of a flow at ``now_ms`` (epoch milliseconds), without any query.

    Args:
        history: None before the first report, or where the store cannot be read.
        settings: None where the flow is not in the file, or misconfigured there; the report's own are taken then.
        schedule: as Airflow has it; None where there is no Airflow, it could not be asked, or it has no such DAG.
        store_fault: why the store cannot be read.
        schedule_fault: why Airflow cannot be queried.
        misconfigured: why the file stops the flow, where ``schedule`` does not tell.
    """
    seen = Observation(str(flow), now_ms, store_fault=store_fault, schedule_fault=schedule_fault)
    if schedule is not None:
        misconfigured = misconfigured or schedule.misconfigured
        seen = replace(
            seen,
            paused=schedule.paused,
            running_since_ms=schedule.running_since_ms,
            running_run_id=schedule.running_run_id,
            next_run_ms=schedule.next_run_ms,
            quiet_since_ms=schedule.waiting_since_ms,
            waiting=schedule.waiting,
        )
    seen = replace(seen, misconfigured=misconfigured)
    if history is not None:
        seen = _with_history(seen, history)
    if settings is None:
        return seen
    # Without a scheduler, whoever starts its runs decides.
    disabled = settings.disabled and schedule is not None
    return replace(
        seen,
        disabled=disabled,
        paused=disabled or seen.paused,
        schedule_interval_seconds=settings.schedule_interval_seconds,
        lag_objective_records=settings.lag_objective_records,
        stalled_after_seconds=settings.stalled_after_seconds,
        run_max_seconds=settings.run_max_seconds,
        run_limit_seconds=settings.execution_timeout_seconds or None,
        dead_letter_topic=settings.dead_letter_topic,
        certificate_warning_days=settings.certificate_expiry_warning_days,
        open_transaction_alarm_seconds=settings.open_transaction_alarm_seconds,
    )


def _with_history(seen: Observation, known: FlowHistory) -> Observation:
    return replace(
        seen,
        last_run_id=known.run_id,
        last_run_ok=known.ok,
        last_run_ended_ms=known.ended_ms,
        last_run_error=known.error,
        last_run_error_kind=known.error_kind,
        last_run_records=known.records,
        last_run_lost_records=known.lost_now,
        failed_partitions=known.failed_partitions,
        partitions=known.partitions,
        data_topics=known.data_topics,
        lost_records=known.lost_records,
        lost_held=known.lost_held,
        lost_since_ms=known.lost_since_ms,
        lost_ms=known.lost_ms,
        lost_text=known.lost_text,
        failing_since_ms=known.failing_since_ms,
        good_run_ended_ms=known.good_run_ended_ms,
        lag=known.lag,
        lag_before=known.lag_before,
        heartbeat_lag=known.heartbeat_lag,
        heartbeat_lag_before=known.heartbeat_lag_before,
        lag_over_since_ms=known.lag_over_since_ms,
        heartbeat_silence=known.heartbeat_silence,
        untranslated_groups=known.untranslated_groups,
        untranslated_text=known.untranslated_text,
        foreign_writers=known.foreign_writers,
        certificates=known.certificates,
        open_transactions=known.open_transactions,
        copies_differ=known.copies_differ,
        skipped_records=known.skipped_records,
        dead_letters=known.dead_letters,
        skipped_since_ms=known.skipped_since_ms,
        skipped_ms=known.skipped_ms,
        skipped_text=known.skipped_text,
        skipped_topics=known.skipped_topics,
        schedule_interval_seconds=known.schedule_interval_seconds,
        lag_objective_records=known.lag_objective_records,
        reported_ms=known.reported_ms,
    )
