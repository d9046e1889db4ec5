"""Put together what health is judged by: the history, the scheduler and the settings of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.monitoring.health import Observation
from srm_common.domain.monitoring.loss import loss_told
from srm_common.domain.monitoring.schedule import ScheduledFlow
from srm_common.store.rows import FlowRow


def observe(
    flow: FlowName,
    row: FlowRow | None,
    settings: FlowSettings | None,
    schedule: ScheduledFlow | None,
    now_ms: int,
    store_fault: str | None = None,
    schedule_fault: str | None = None,
    misconfigured: str | None = None,
) -> Observation:
    """What is known of a flow at ``now_ms`` (epoch milliseconds); asks nobody.

    Args:
        row: its newest report; None before the first one, or where the store cannot be read.
        settings: None where the flow is not in the file, or misconfigured there; the report's own are taken then.
        schedule: as Airflow has it; None where there is no Airflow, it could not be asked, or it has no such DAG.
        store_fault: why the store cannot be read.
        schedule_fault: why Airflow cannot be asked.
        misconfigured: why the file stops the flow, where ``schedule`` does not tell.
    """
    seen = Observation(
        str(flow),
        now_ms,
        paused=None if schedule is None else schedule.paused,
        misconfigured=misconfigured or (schedule.misconfigured if schedule is not None else None),
        schedule_interval_seconds=None if settings is None else settings.schedule_interval_seconds,
        lag_objective_records=None if settings is None else settings.lag_objective_records,
        stalled_after_seconds=None if settings is None else settings.stalled_after_seconds,
        run_max_seconds=0.0 if settings is None else settings.run_max_seconds,
        run_limit_seconds=(settings.execution_timeout_seconds or None) if settings is not None else None,
        running_since_ms=None if schedule is None else schedule.running_since_ms,
        running_run_id=None if schedule is None else schedule.running_run_id,
        next_run_ms=None if schedule is None else schedule.next_run_ms,
        store_fault=store_fault,
        schedule_fault=schedule_fault,
        quiet_since_ms=None if schedule is None else schedule.waiting_since_ms,
        waiting=None if schedule is None else schedule.waiting,
    )
    return seen if row is None else _with_report(seen, row)


def _with_report(seen: Observation, row: FlowRow) -> Observation:
    run = row.last_run
    if seen.schedule_interval_seconds is None:
        seen = replace(
            seen,
            schedule_interval_seconds=row.schedule_interval_seconds,
            lag_objective_records=row.lag_objective_records,
        )
    return replace(
        seen,
        last_run_id=run.run_id,
        last_run_ok=run.ok,
        last_run_ended_ms=run.finished_ms or run.reported_ms,
        last_run_error=run.error or next(iter(run.partition_errors), None),
        last_run_error_kind=run.error_kind,
        last_run_records=run.records,
        last_run_lost_records=run.lost_records,
        # What stopped the whole run counts more than what it left of its partitions.
        failed_partitions=0 if run.error is not None else row.failed_partitions,
        partitions=row.partitions,
        lost_records=row.lost_records,
        lost_since_ms=row.lost_since_ms,
        lost_text=loss_told(run.partition_errors, run.notes),
        failing_since_ms=row.failing_since_ms,
        good_run_ended_ms=row.good_run_ended_ms,
        lag=row.lag,
        lag_before=row.lag_before,
        lag_over_since_ms=row.lag_over_since_ms,
        heartbeat_silence=_silence(row.heartbeats),
        untranslated_groups=row.untranslated_groups,
        untranslated_text=row.untranslated_text,
        foreign_writers=row.foreign_writers,
        reported_ms=row.reported_ms,
    )


def _silence(heartbeats: Mapping[str, Any] | None) -> str | None:
    return heartbeats.get("sentence") if heartbeats is not None and heartbeats.get("silent") else None
