"""Figures on their way into JSON, with values worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.rest.presenters import heartbeats, partition, sparkline, stats
from tests.unit.rest.figures import figures
from tests.unit.rest.figures import partition as a_partition


def bucket(start_ms: int, end_ms: int, total: float, count: int = 1) -> Stats:
    return Stats(Metric.BYTE_RATE, TimeRange(start_ms, end_ms), count, total, total, total, total, end_ms)


def test_a_sparkline_has_a_value_for_each_bucket_and_null_where_nothing_was_reported() -> None:
    line = sparkline([bucket(0, 10, 3.0, 2), bucket(10, 20, 5.0), bucket(30, 40, 7.0)], TimeRange(0, 40), 4, None)
    assert (line.start_ms, line.step_ms, line.values) == (0, 10, [1.5, 5.0, None, 7.0])


def test_a_sparkline_is_not_finer_than_the_reports() -> None:
    """One report is due every 10 s, so a bucket has 15 s: the first two buckets of the store are one."""
    found = [bucket(0, 10_000, 2.0), bucket(4_000, 14_000, 4.0), bucket(20_000, 30_000, 9.0)]
    line = sparkline(found, TimeRange(0, 40_000), 4, 10.0)
    assert (line.step_ms, line.values) == (15_000, [3.0, 9.0, None])


def test_a_sparkline_of_no_time_at_all() -> None:
    assert sparkline([], TimeRange(5, 5), 40, None).values == [None]


DOCUMENT = {
    "flow": "east->west",
    "silent": False,
    "sentence": "The newest heartbeat ...",
    "age_ms": 900,
    "heartbeats": [
        {"hops": 2, "latency_ms": 5, "by_hop": []},
        {
            "hops": 1,
            "written_by": "east->west",
            "latency_ms": 250,
            "by_hop": [{"flow": "east->west", "latency_ms": 250, "fault": None}],
        },
    ],
}


def test_heartbeats_grow_older_while_nobody_looks() -> None:
    told = heartbeats(DOCUMENT, aged_ms=100)
    assert (told.age_ms, told.latency_ms) == (1000, 250)
    assert told.hops == [{"flow": "east->west", "latency_ms": 250, "fault": None}]


def test_only_heartbeats_of_the_flow_itself_are_known_to_be_by_its_clock() -> None:
    assert heartbeats(DOCUMENT, 0).corrected_latency_ms == 250
    assert heartbeats({**DOCUMENT, "flow": "west->east"}, 0).corrected_latency_ms is None


def test_no_heartbeat_has_no_age() -> None:
    assert heartbeats({"heartbeats": []}, 0).age_ms is None


def test_percentiles_are_told_where_they_are_known() -> None:
    (topic,) = figures().topics
    told = stats(topic.stats)
    latency, rate = told["replication-latency-ms"], told["byte-rate"]
    assert (latency.p50, latency.p95, latency.p99) == (104.0, 1152.0, 1152.0)
    assert (rate.p50, rate.p95, rate.p99) == (None, None, None)
    found = partition(a_partition(0))
    # The last bucket goes on to 2.5 s, but nothing took longer than 1.5 s.
    assert (found.latency_ms_p50, found.latency_ms_p99, found.latency_ms_max) == (104.0, 1500.0, 1500.0)
    older = partition(replace(a_partition(0), latencies=None))
    assert (older.latency_ms_p50, older.latency_ms_p99, older.latency_ms_max) == (None, None, 1500.0)
