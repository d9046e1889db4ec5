"""How long a flow may be silent before it counts as stalled."""

from __future__ import annotations

from srm_common.domain.health.health import Observation

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
    """Since when nothing has come from the flow, where that is longer than it may be; None where it is not.

    A run at work may take as long as Airflow lets it; one that waits for its turn is not at work.
    """
    allowed = deadline_seconds(seen)
    if seen.running_since_ms is not None and not long_quiet(seen):
        if seen.run_limit_seconds is None:
            return None
        limit = seen.run_limit_seconds + (allowed or PATIENCE_SECONDS)
        return seen.running_since_ms if seen.now_ms - seen.running_since_ms > limit * 1000 else None
    ended = seen.last_run_ended_ms
    if allowed is None or ended is None or seen.now_ms - ended <= allowed * 1000:
        return None
    return ended


def report_late(seen: Observation) -> bool:
    """Whether the newest report, good or bad, is older than the next one could be waited for."""
    allowed, reported = deadline_seconds(seen), seen.reported_ms
    return allowed is not None and reported is not None and seen.now_ms - reported > allowed * 1000


def long_at_work(seen: Observation) -> bool:
    """Whether a run takes longer than the next one could be waited for."""
    allowed, since = deadline_seconds(seen), seen.running_since_ms
    return allowed is not None and since is not None and seen.now_ms - since > allowed * 1000


def long_quiet(seen: Observation) -> bool:
    """Whether nothing has been at work for so long that it is no pause between two tasks, and no start of Airflow."""
    allowed, since = deadline_seconds(seen), seen.quiet_since_ms
    return since is not None and seen.now_ms - since > min(allowed or PATIENCE_SECONDS, PATIENCE_SECONDS) * 1000
