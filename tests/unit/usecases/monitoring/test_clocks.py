"""The clocks of both clusters, asked while a report is made."""

from __future__ import annotations

import threading

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.log.cluster_clock import ClockOffset, clock_offset
from srm_common.usecases.monitoring import report_run
from srm_common.usecases.monitoring.report_run import measure_clocks
from tests.unit.usecases.fakes import Sides


def test_both_are_asked_at_the_same_time(steady_sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def together(cluster: ClusterSettings, pool: LinkPool) -> ClockOffset | None:
        both.wait(60)
        return clock_offset(cluster, pool)

    monkeypatch.setattr(report_run, "clock_offset", together)
    measured = measure_clocks(steady_sides.clusters())
    assert None not in (measured.source_ms, measured.target_ms, measured.uncertainty_ms)
