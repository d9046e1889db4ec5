"""Builds the observation from which health is judged: history, scheduler and settings of a flow."""

from __future__ import annotations

from dataclasses import replace

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.health import Observation
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.domain.monitoring.schedule import ScheduledFlow


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
    return replace(
        seen,
        schedule_interval_seconds=settings.schedule_interval_seconds,
        lag_objective_records=settings.lag_objective_records,
        stalled_after_seconds=settings.stalled_after_seconds,
        run_max_seconds=settings.run_max_seconds,
        run_limit_seconds=settings.execution_timeout_seconds or None,
        dead_letter_topic=settings.dead_letter_topic,
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
        lost_since_ms=known.lost_since_ms,
        lost_ms=known.lost_ms,
        lost_text=known.lost_text,
        failing_since_ms=known.failing_since_ms,
        good_run_ended_ms=known.good_run_ended_ms,
        lag=known.lag,
        lag_before=known.lag_before,
        lag_over_since_ms=known.lag_over_since_ms,
        heartbeat_silence=known.heartbeat_silence,
        untranslated_groups=known.untranslated_groups,
        untranslated_text=known.untranslated_text,
        foreign_writers=known.foreign_writers,
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
