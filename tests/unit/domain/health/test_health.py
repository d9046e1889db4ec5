"""When the figures of a flow are older than they should be."""

from __future__ import annotations

from dataclasses import replace

from srm_common.domain.health.health import PATIENCE_SECONDS, Observation, report_late

NOW = 1_700_000_000_000
#: Runs begin every 30 s, and the last one has just reported that it failed, as those before it did.
FAILING = Observation("a->b", NOW, schedule_interval_seconds=30.0, last_run_ok=False, reported_ms=NOW - 1_000)


def test_figures_of_a_flow_that_fails_and_reports_are_not_late() -> None:
    assert not report_late(FAILING)
    assert not report_late(replace(FAILING, reported_ms=NOW - int(PATIENCE_SECONDS) * 1000))


def test_figures_are_late_when_the_next_report_is_overdue() -> None:
    assert report_late(replace(FAILING, reported_ms=NOW - int(PATIENCE_SECONDS) * 1000 - 1))
    assert report_late(replace(FAILING, reported_ms=NOW - 11_000, stalled_after_seconds=10.0))


def test_nothing_is_late_that_is_not_due() -> None:
    assert not report_late(replace(FAILING, reported_ms=None))
    assert not report_late(replace(FAILING, reported_ms=1, schedule_interval_seconds=None))
