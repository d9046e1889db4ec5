"""The clocks of both clusters, asked while a report is made."""

from __future__ import annotations

import threading

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.log.cluster_clock import ClockOffset, clock_offset
from srm_common.usecases.monitoring import report_run
from srm_common.usecases.monitoring.report_run import make_report, measure_clocks
from tests.unit.usecases.fakes import Sides


def test_both_are_asked_at_the_same_time(steady_sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def together(cluster: ClusterSettings, pool: LinkPool) -> ClockOffset | None:
        both.wait(60)
        return clock_offset(cluster, pool)

    monkeypatch.setattr(report_run, "clock_offset", together)
    measured = measure_clocks(steady_sides.clusters())
    assert None not in (measured.source_ms, measured.target_ms, measured.uncertainty_ms)


def test_a_report_has_the_time_that_the_clusters_have(steady_sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    steady_sides.refresh()
    steady_sides.run("r1")
    hour = 3_600_000
    monkeypatch.setattr(report_run, "clock_offset", lambda *_: ClockOffset(-hour, 1.0))
    clusters = steady_sides.clusters()
    before_ms = clusters.now_ms()
    report = make_report(clusters, "r1")
    assert before_ms - hour <= report.reported_ms <= clusters.now_ms() - hour
    assert report.run is not None
    assert report.run.finished_ms is not None
    assert report.ended_ms == report.reported_ms < report.run.finished_ms
