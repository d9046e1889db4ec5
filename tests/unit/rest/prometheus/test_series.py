from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.rest.prometheus.series import rate_factor, rates_window_ms
from srm_common.store.rows import FlowRow
from tests.unit.rest.figures import T, flow_row, run_row


def row(took_ms: int, interval_seconds: float | None, before_ms: int | None = None) -> FlowRow:
    history = FlowHistory(
        schedule_interval_seconds=interval_seconds,
        before=None if before_ms is None else FlowHistory(reported_ms=T - before_ms),
    )
    run = replace(run_row(), started_ms=T - took_ms, finished_ms=T)
    return replace(flow_row(), last_run=run, history=history)


@pytest.mark.parametrize(
    ("took_ms", "interval_seconds", "window_ms"),
    [(1_000, 30, 300_000), (1_000, None, 300_000), (1_000, 900, 2_700_000), (600_000, 30, 1_800_000)],
)
def test_rates_are_averaged_over_a_few_runs(took_ms: int, interval_seconds: float | None, window_ms: int) -> None:
    assert rates_window_ms(row(took_ms, interval_seconds)) == window_ms


@pytest.mark.parametrize(
    ("took_ms", "interval_seconds", "before_ms", "age_ms", "factor"),
    [
        (3_000, 30, 30_000, 60_000, 0.1),
        (3_000, 30, 30_000, 60_001, 0),
        (3_000, 30, 60_000, 0, 0.05),
        (3_000, 30, None, 0, 0.1),
        (3_000, None, None, 0, 1),
        (90_000, 900, 900_000, 1_800_000, 0.1),
        (90_000, 900, 900_000, 1_800_001, 0),
        # Runs that keep reading report seldom.
        (3_600_000, 30, 3_600_000, 7_200_000, 1),
        # A report that was late does not make it faster than the run was.
        (3_000, 30, 1_000, 0, 1),
    ],
)
def test_rates_of_partitions_are_since_the_report_before(
    took_ms: int, interval_seconds: float | None, before_ms: int | None, age_ms: int, factor: float
) -> None:
    assert rate_factor(row(took_ms, interval_seconds, before_ms), T + age_ms) == pytest.approx(factor)
