"""What any metrics store makes of reports whose hosts' clocks are wrong; run for SQLite and for PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import TimeRange
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.store.metrics_store import MetricsStore
from tests.unit.store.made_up import DAY, FLOW, HOUR, MIDNIGHT, MINUTE, SECOND, partition, report

T = MIDNIGHT


class WrongClocksBehaviour:
    @pytest.fixture
    def store(self, url: str) -> Iterator[MetricsStore]:
        store = MetricsStore(url)
        yield store
        store.close()

    @staticmethod
    def keep(store: MetricsStore, run_report: RunReport, now_ms: int | None = None) -> None:
        store.write(run_report, now_ms=run_report.reported_ms if now_ms is None else now_ms)

    def test_a_report_from_an_hour_ahead_hides_no_later_one(self, store: MetricsStore) -> None:
        groups = (GroupSample("g", 1, 1),)
        self.keep(store, report(T, partition(), run_id="r1"))
        ahead = report(T + HOUR, partition(), partition("gone"), run_id="r2", groups=groups, plan={"n": 2})
        self.keep(store, ahead)
        self.keep(store, report(T + MINUTE, partition(error="broken", lag=7), run_id="r3", plan={"n": 3}))
        (flow,) = store.flows()
        assert (flow.last_run.run_id, flow.reported_ms, flow.history.ok) == ("r3", T + MINUTE, False)
        assert (flow.topics, flow.partitions, flow.failed_partitions, flow.groups) == (1, 1, 1, 0)
        span = TimeRange(T, T + MINUTE + 1)
        assert [row.topic for row in store.topics(FLOW, span).rows] == ["orders"]
        assert [(row.topic, row.lag) for row in store.partitions(FLOW).rows] == [("orders", 7)]
        assert store.groups(FLOW).total == 0
        assert store.documents(FLOW)["plan"].value == {"n": 3}
        # One that could not look leaves what was known, as it was.
        self.keep(store, ahead)
        self.keep(store, report(T + 2 * MINUTE, error="no broker answered", run_id="r4"))
        (flow,) = store.flows()
        assert (flow.last_run.run_id, flow.history.error) == ("r4", "no broker answered")
        assert [row.topic for row in store.partitions(FLOW).rows] == ["gone", "orders"]
        # And a report that is late is that.
        self.keep(store, report(T + MINUTE + SECOND, partition(lag=50), run_id="r5"), now_ms=T + 3 * MINUTE)
        assert store.flows()[0].last_run.run_id == "r4"

    def test_a_clock_that_is_less_than_a_minute_ahead_is_believed(self, store: MetricsStore) -> None:
        self.keep(store, report(T + MINUTE, partition(), run_id="r1"))
        self.keep(store, report(T, partition(), run_id="r2"))
        assert store.flows()[0].last_run.run_id == "r1"

    @pytest.mark.parametrize("off", [HOUR, 30 * HOUR, -30 * HOUR], ids=["hour", "day", "behind"])
    def test_buckets_are_whole_once_time_has_passed(self, store: MetricsStore, off: int) -> None:
        """Those that the wrong report closed, too; and those that it opens again stay as they are."""
        for n in range(40):
            if n == 12:
                self.keep(store, report(T + n * 10 * MINUTE + off, partition(lag=1), run_id="off"))
            self.keep(store, report(T + n * 10 * MINUTE + SECOND, partition(lag=n), run_id=f"r{n}"))
        span = TimeRange(T, T + 400 * MINUTE)
        for points in (5, 40):
            series = store.series(FLOW, Metric.RECORDS_LAG, span, points=points)
            # The sample of the wrong report is where it was, if that is within the range.
            assert sum(point.count for point in series) == 40 + (off == HOUR)
        for n in range(1, 40):
            self.keep(store, report(T + 400 * MINUTE + n * HOUR, partition(lag=n), run_id=f"s{n}"))
        series = store.series(FLOW, Metric.RECORDS_LAG, TimeRange(T, T + DAY), points=24)
        assert [point.count for point in series][:6] == [6, 6, 6, 6 + (off == HOUR), 6, 6]
