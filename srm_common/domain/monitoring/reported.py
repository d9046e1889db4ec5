"""A run's report as health is judged by it, where nothing else is at hand: in the task that makes it."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.flow import FlowSettings
from srm_common.domain.monitoring.alarm_memory import AlarmMemory
from srm_common.domain.monitoring.health import Observation
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.run_record import RunState


def observe_report(flow: FlowSettings, report: RunReport, memory: AlarmMemory) -> Observation:
    """``memory`` is that after this report. Nothing is told of a pause, since a paused flow makes no reports."""
    run = report.run
    errors = [] if run is None else [one.trouble for one in run.failed_partitions]
    lost = 0 if run is None else sum(one.lost_records for one in run.partitions)
    groups, sentence = untranslated(report.groups)
    return Observation(
        report.flow,
        report.reported_ms,
        schedule_interval_seconds=flow.schedule_interval_seconds,
        run_max_seconds=flow.run_max_seconds,
        run_limit_seconds=flow.execution_timeout_seconds or None,
        lag_objective_records=flow.lag_objective_records,
        stalled_after_seconds=flow.stalled_after_seconds,
        last_run_id=report.run_id,
        last_run_ok=report.fault is None and run is not None and run.state is RunState.DONE,
        last_run_ended_ms=(run.finished_ms if run is not None else None) or report.reported_ms,
        last_run_error=report.fault or (run and run.error) or next(iter(errors), None),
        last_run_error_kind=None if run is None else run.first_error_kind,
        last_run_records=None if run is None else run.records,
        last_run_lost_records=lost,
        # What stopped the whole run counts more than what it left of its partitions.
        failed_partitions=0 if report.fault or (run and run.error) else len(errors),
        partitions=0 if run is None else len(run.partitions),
        lost_records=memory.lost_records,
        lost_since_ms=memory.lost_since_ms,
        lost_text=memory.lost_text,
        failing_since_ms=memory.failing_since_ms,
        good_run_ended_ms=memory.good_run_ended_ms,
        lag=memory.lag,
        lag_before=memory.lag_before,
        lag_over_since_ms=memory.lag_over_since_ms,
        heartbeat_silence=None if report.heartbeats is None else report.heartbeats.silence,
        untranslated_groups=groups,
        untranslated_text=sentence,
        foreign_writers=report.foreign_writers,
        reported_ms=report.reported_ms,
    )


def untranslated(groups: Iterable[GroupSample]) -> tuple[int, str | None]:
    """How many groups have positions without a place on the target; and the first one's reason, in a sentence."""
    found = [one for one in groups if one.translated < one.positions]
    if not found:
        return 0, None
    first = min(found, key=lambda one: one.group)
    missing = first.positions - first.translated
    return len(
        found
    ), f"{first.group} on {missing} of {first.positions} partitions: {first.reason or 'no reason known'}"
