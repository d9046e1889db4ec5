"""What any metrics store says of how figures went; run for SQLite and for PostgreSQL.

The model in :mod:`tests.unit.store.windows` says what is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from bench.history import Shape, reports
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.samples import by_topic, flow_samples, partition_samples
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.monitoring.run_report import RunReport, TopicGroups
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.store import roll_up, tables
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.tiers import BUCKETS_MS, Level, Retention, kept_for
from tests.unit.store.made_up import DAY, FLOW, HOUR, MIDNIGHT, MINUTE, SECOND, partition, report
from tests.unit.store.windows import over_time

T = MIDNIGHT
ALWAYS = TimeRange(T - DAY, T + 400 * DAY)


def expected(told: Sequence[RunReport], metric: Metric, span: TimeRange, topic: str | None = None) -> Stats:
    timed = []
    for run_report in told:
        partitions = run_report.run.partitions if run_report.run else ()
        samples = flow_samples(run_report)
        if topic is not None:
            samples = partition_samples(run_report, by_topic(partitions).get(topic, []))
        if metric in samples:
            timed.append((run_report.reported_ms, samples[metric]))
    return over_time(metric, span, timed)


def same(found: Stats, wanted: Stats) -> None:
    assert (found.count, found.latest_ms) == (wanted.count, wanted.latest_ms)
    assert found.latencies == wanted.latencies
    for name in ("min", "max", "sum", "avg", "latest"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name)), name


class SamplesBehaviour:
    @pytest.fixture
    def store(self, url: str) -> Iterator[MetricsStore]:
        store = MetricsStore(url)
        yield store
        store.close()

    def test_statistics_by_hand(self, store: MetricsStore) -> None:
        """Two partitions; 10 s a run, so 1000 bytes are 100 bytes/s."""
        store.write(report(T, partition(lag=3), partition(number=1, lag=5, latency_ms_avg=20.0, latency_ms_max=50.0)))
        store.write(report(T + MINUTE, partition(lag=1, bytes=3000), partition(number=1, lag=None, records=0, bytes=0)))
        stats = store.flow_stats(TimeRange(T, T + HOUR))[FLOW]
        rate = stats[Metric.BYTE_RATE]
        assert (rate.min, rate.max, rate.avg, rate.sum, rate.count) == (200.0, 300.0, 250.0, 500.0, 2)
        assert (rate.latest, rate.latest_ms) == (300.0, T + MINUTE)
        lag = stats[Metric.RECORDS_LAG]
        # Of the second run it is known in part only.
        assert (lag.min, lag.max, lag.latest, lag.latest_ms, lag.count) == (8.0, 8.0, 8.0, T, 1)
        unknown = stats[Metric.UNKNOWN_LAGS]
        assert (unknown.min, unknown.max, unknown.latest) == (0.0, 1.0, 1.0)
        latency = stats[Metric.REPLICATION_LATENCY]
        assert (latency.min, latency.max, latency.avg, latency.count) == (5.0, 50.0, 12.5, 4)
        (topic,) = store.topics(FLOW, TimeRange(T, T + HOUR)).rows
        assert topic.stats[Metric.BYTE_RATE] == rate
        assert topic.stats[Metric.RECORDS_LAG] == lag

    def test_a_range_ends_where_it_says(self, store: MetricsStore) -> None:
        for second in (0, 30, 60):
            store.write(report(T + second * SECOND, partition(lag=second)))
        stats = store.flow_stats(TimeRange(T, T + 60 * SECOND))[FLOW][Metric.RECORDS_LAG]
        assert (stats.count, stats.latest) == (2, 30.0)
        assert store.flow_stats(TimeRange(T + HOUR, T + 2 * HOUR)) == {FLOW: {}}
        assert store.flow_stats(TimeRange(T, T)) == {FLOW: {}}

    def test_series(self, store: MetricsStore) -> None:
        for minute in range(10):
            store.write(report(T + minute * MINUTE, partition(lag=minute), partition("b", 1, lag=10)))
        span = TimeRange(T, T + 10 * MINUTE)
        stats = store.series(FLOW, Metric.RECORDS_LAG, span, points=5)
        assert [point.span for point in stats] == [
            TimeRange(T + 2 * n * MINUTE, T + 2 * (n + 1) * MINUTE) for n in range(5)
        ]
        assert [(point.min, point.max, point.latest) for point in stats] == [
            (10.0 + 2 * n, 11.0 + 2 * n, 11.0 + 2 * n) for n in range(5)
        ]
        of_topic = store.series(FLOW, Metric.RECORDS_LAG, span, topic="b", points=100)
        assert [(point.latest_ms, point.latest) for point in of_topic] == [(T + n * MINUTE, 10.0) for n in range(10)]
        of_partition = store.series(FLOW, Metric.RECORDS_LAG, span, topic="orders", partition=0, points=1)
        assert [(point.count, point.avg) for point in of_partition] == [(10, 4.5)]
        assert store.series(FLOW, Metric.RECORDS_LAG, span, topic="orders", partition=7) == []
        assert store.series(FLOW, Metric.RECORDS_LAG, span, topic="unknown") == []
        assert store.series("other->flow", Metric.RECORDS_LAG, span) == []
        assert store.series(FLOW, Metric.HEARTBEAT_AGE, span) == []
        lines = store.sparklines([Metric.RECORDS_LAG, Metric.PASSES], span, points=5)
        assert lines[FLOW][Metric.RECORDS_LAG] == store.series(FLOW, Metric.RECORDS_LAG, span, points=2)
        assert [point.latest for point in lines[FLOW][Metric.PASSES]] == [1.0] * 2

    def test_nothing_changes_as_it_is_rolled_up(self, store: MetricsStore) -> None:
        """Three days: samples of the first are in buckets of a day, of the newest hour in all tiers."""
        told = list(
            reports(Shape(flows=2, topics=3, partitions=2, groups=2, days=3, interval_seconds=2 * 3600 + 300, end_ms=T))
        )
        for run_report in told:
            store.write(run_report)
        everything = TimeRange(T - 4 * DAY, T + 1)
        for name, figures in store.flow_stats(everything).items():
            mine = [run_report for run_report in told if run_report.flow == name]
            for metric in (*Metric,):
                wanted = expected(mine, metric, everything)
                assert (metric in figures) == (wanted.count > 0)
                if wanted.count:
                    same(figures[metric], wanted)
            for topic in store.topics(name, everything).rows:
                for metric in (Metric.BYTE_RATE, Metric.REPLICATION_LATENCY):
                    same(topic.stats[metric], expected(mine, metric, everything, topic.topic))
            for points in (1, 3, 40, 1000):
                series = store.series(name, Metric.RECORDS_LAG, everything, points=points)
                assert 0 < len(series) <= points
                assert sum(point.count for point in series) == expected(mine, Metric.RECORDS_LAG, everything).count
                for point in series:
                    same(point, expected(mine, Metric.RECORDS_LAG, point.span))

    def test_percentiles_of_a_range_are_those_of_all_its_records(self, store: MetricsStore) -> None:
        """A run of 1,000 quick records and one of 10 slow ones: averages of percentiles would be far off."""
        quick, slow = LatencyHistogram(((22, 990), (30, 10))), LatencyHistogram(((40, 10),))
        store.write(report(T, partition(latencies=quick, latency_ms_min=96.0, latency_ms_max=440.0)))
        store.write(report(T + MINUTE, partition(latencies=slow, latency_ms_max=2_100.0), partition(number=1)))
        span = TimeRange(T, T + HOUR)
        stats = store.flow_stats(span)[FLOW][Metric.REPLICATION_LATENCY]
        assert stats.latencies == quick + slow
        assert (stats.p50, stats.p95, stats.p99) == (104.0, 104.0, 416.0)
        assert stats.percentile(1.0) == 2_100.0, "never beyond what was measured"
        points = store.series(FLOW, Metric.REPLICATION_LATENCY, span, topic="orders", points=60)
        assert [point.p95 for point in points] == [104.0, 2_100.0]
        (row, other) = store.partitions(FLOW).rows
        assert row.latency_percentiles == {"p50": 2_100.0, "p95": 2_100.0, "p99": 2_100.0}
        assert other.latency_percentiles == {"p50": None, "p95": None, "p99": None}

    def test_groups_and_checkpoints_of_topics(self, store: MetricsStore) -> None:
        store.write(report(T, partition(), partition("clicks"), partition("quiet")))
        assert [row.consumer_groups for row in store.topics(FLOW, ALWAYS).rows] == [None, None, None]
        told = (
            TopicGroups("orders", 3, 2, T + MINUTE - 1, 10.0, 30.0, 40.0),
            TopicGroups("clicks", 1, 1, T, 5.0, 5.0, 5.0),
        )
        store.write(report(T + MINUTE, partition(), partition("clicks"), partition("quiet"), topic_groups=told))
        store.write(report(T + 2 * MINUTE, partition(), partition("clicks"), partition("quiet")))
        clicks, orders, quiet = store.topics(FLOW, TimeRange(T, T + HOUR)).rows
        assert (clicks.consumer_groups, orders.consumer_groups, quiet.consumer_groups) == (1, 3, 0)
        latency = orders.stats[Metric.CHECKPOINT_LATENCY]
        assert (latency.min, latency.avg, latency.max, latency.count) == (10.0, 20.0, 30.0, 2)
        # The other's checkpoint was written before the run.
        assert Metric.CHECKPOINT_LATENCY not in clicks.stats
        assert Metric.CHECKPOINT_LATENCY not in quiet.stats

    def test_each_record_is_in_the_total_once(self, store: MetricsStore) -> None:
        def told(at: int, count: int, started: int, **more: Any) -> RunReport:
            one = report(at, partition(latencies=LatencyHistogram(((22, count),))), run_id="r", **more)
            assert one.run is not None
            return replace(one, run=replace(one.run, started_ms=started))

        def total() -> LatencyHistogram | None:
            (flow,) = store.flows()
            return flow.latencies_total

        store.write(report(T - MINUTE, partition(), run_id="older software"))
        assert total() is None
        store.write(told(T, 100, T - SECOND))
        store.write(told(T + SECOND, 130, T - SECOND))  # the same attempt, when it had ended
        assert total() == LatencyHistogram(((22, 130),))
        store.write(told(T + MINUTE, 7, T + 30 * SECOND))  # another attempt: what the first copied it does not have
        assert total() == LatencyHistogram(((22, 137),))
        store.write(report(T - HOUR, partition(latencies=LatencyHistogram(((23, 1),))), run_id="late"))
        assert total() == LatencyHistogram(((22, 137), (23, 1)))
        for hour in range(1, 30):
            store.write(report(T + hour * HOUR, partition()))
        store.write(told(T + 30 * HOUR, 7, T + 30 * SECOND))  # its samples are in buckets by now
        assert total() == LatencyHistogram(((22, 137), (23, 1)))

    def test_the_range_covered_is_told(self, store: MetricsStore) -> None:
        told = list(reports(Shape(flows=1, topics=1, partitions=1, days=2, interval_seconds=1800, end_ms=T)))
        for run_report in told:
            store.write(run_report)
        asked = TimeRange(T - 30 * HOUR - 7 * MINUTE, T + 1)
        stats = store.flow_stats(asked)[told[0].flow][Metric.BYTE_RATE]
        assert stats.span == TimeRange(T - 31 * HOUR, T + 1)
        same(stats, expected(told, Metric.BYTE_RATE, stats.span))

    def test_late_and_repeated_reports_are_in_the_buckets(self, store: MetricsStore) -> None:
        told = [report(T + 5 * n * MINUTE, partition(lag=n), run_id=f"run-{n}") for n in range(30)]
        late, again = told.pop(10), told[20]
        for run_report in told:
            store.write(run_report)
        store.write(late)
        other = report(again.reported_ms + SECOND, partition(lag=1000), run_id=again.run_id)
        store.write(other)
        told = [*(run_report for run_report in told if run_report is not again), late, other]
        wide = TimeRange(T - DAY, T + 3 * HOUR)  # in buckets of an hour
        same(store.flow_stats(wide)[FLOW][Metric.RECORDS_LAG], expected(told, Metric.RECORDS_LAG, wide))

    def test_history_is_bounded(self, store: MetricsStore, url: str) -> None:
        """After so long that every tier has forgotten something, more time adds no more rows."""
        day = kept_for(tiers_ms=(HOUR, 6 * HOUR, DAY, 2 * DAY, 3 * DAY), partitions_ms=12 * HOUR, runs_ms=2 * DAY)
        short = MetricsStore(url, retention=day)
        rows = []
        shape = Shape(flows=1, topics=2, partitions=2, days=7, interval_seconds=2 * 3600, end_ms=T)
        for number, one in enumerate(reports(shape)):
            short.write(one)
            if number % 12 == 11:
                rows.append((short.runs(one.flow).total, *short.samples_kept().values()))
        short.close()
        assert rows[-1] == rows[-2] == rows[-3]
        assert rows[-1][0] <= 2 * 12 + 1

    def test_a_flow_that_reports_no_more_is_forgotten(
        self, store: MetricsStore, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once it is in no file; a part with each report of others."""
        monkeypatch.setattr(roll_up, "_SAMPLES", 30)
        kept, short = ("paused->flow", "living->flow"), replace(Retention(), flows_ms=5 * DAY)
        mine = MetricsStore(url, retention=short, configured=kept)
        for minute in range(0, 60, 6):
            for flow in ("gone->flow", "other->flow", *kept):
                mine.write(report(T + minute * MINUTE, partition(), flow=flow))
        before = sum(mine.samples_kept().values())
        mine.write(report(T + 5 * DAY, partition(), flow="living->flow"))
        assert [row.flow for row in mine.flows()] == ["gone->flow", "living->flow", "other->flow", "paused->flow"]
        # It goes from sight with the first part of its history.
        mine.write(report(T + 6 * DAY, partition(), flow="living->flow"))
        assert [row.flow for row in mine.flows()] == ["living->flow", "other->flow", "paused->flow"]
        assert "gone->flow" not in mine.flow_stats(TimeRange(T, T + HOUR))
        # Whoever reports again meanwhile stays.
        mine.write(report(T + 6 * DAY, partition(lag=7), flow="other->flow"))
        for minute in range(10, 200, 5):
            mine.write(report(T + 6 * DAY + minute * MINUTE, partition(), flow="living->flow"))
        assert [row.flow for row in mine.flows()] == ["living->flow", "other->flow", "paused->flow"]
        assert mine.series("paused->flow", Metric.RECORDS_LAG, TimeRange(T, T + HOUR)) != []
        engine = mine.engine
        with engine.connect() as connection:
            known = connection.execute(select(tables.FLOW.c.id, tables.FLOW.c.name)).all()
            for table in (tables.SAMPLE, tables.RUN, tables.TOPIC):
                assert set(connection.execute(select(table.c.flow_id)).scalars()) == {row.id for row in known}
        assert {row.name for row in known} == {"other->flow", *kept}
        assert before > 3 * 30
        # One that comes back begins anew.
        mine.write(report(T + 8 * DAY, partition(lag=3), flow="gone->flow"))
        assert [row.lag for row in mine.partitions("gone->flow").rows] == [3]
        assert mine.runs("gone->flow").total == 1
        mine.close()

    def test_partitions_can_be_left_out(self, store: MetricsStore, url: str) -> None:
        less = MetricsStore(url, retention=kept_for(Retention().tiers_ms, 0, DAY))
        for minute in range(0, 120, 5):
            less.write(report(T + minute * MINUTE, partition(lag=minute)))
        less.close()
        assert len(store.series(FLOW, Metric.RECORDS_LAG, ALWAYS, topic="orders")) > 0
        assert store.series(FLOW, Metric.RECORDS_LAG, ALWAYS, topic="orders", partition=0) == []
        assert store.partitions(FLOW).rows[0].lag == 115

    def test_history_restored_from_old_reports_is_as_if_it_had_been_there(self, store: MetricsStore) -> None:
        """Time is the reports', not the clock's: years ago as good as now."""
        old = T - 3000 * DAY
        for n in range(100):
            store.write(report(old + n * HOUR, partition(lag=n)))
        (points) = store.series(FLOW, Metric.RECORDS_LAG, TimeRange(old, old + 100 * HOUR), points=200)
        assert [point.latest for point in points] == [float(n) for n in range(100)]
        assert all(point.span.milliseconds <= BUCKETS_MS[2] for point in points)

    def test_average_rates_are_of_the_window_and_not_of_the_runs(self, store: MetricsStore) -> None:
        for number in range(4):
            store.write(report(T + number * MINUTE, partition(), partition("payments", records=50, bytes=10)))
        levels = (Level.FLOW, Level.TOPIC)
        now = T + 3 * MINUTE + SECOND
        # The first run reported before the window of three minutes.
        rates = store.average_rates(FLOW, now, 3 * MINUTE, levels)
        assert {name: found[Metric.RECORD_RATE] * 180 for name, found in rates.items()} == {
            "": pytest.approx(450),
            "orders": pytest.approx(300),
            "payments": pytest.approx(150),
        }
        assert rates[""][Metric.BYTE_RATE] * 180 == pytest.approx(3030)
        assert store.average_rates(FLOW, now, 3 * MINUTE, (Level.FLOW,)).keys() == {""}
        assert store.average_rates(FLOW, now + DAY, 3 * MINUTE, levels) == {}
        # A run takes 10 s: of those that are longer than the window, only a part of that length counts.
        short = store.average_rates(FLOW, T + 3 * MINUTE, 5 * SECOND, levels)
        assert short["orders"][Metric.RECORD_RATE] == pytest.approx(10)
        # No longer than samples are kept as they were reported, two hours.
        long = store.average_rates(FLOW, now, DAY, levels)
        assert long["orders"][Metric.RECORD_RATE] * 2 * 3600 == pytest.approx(400)
