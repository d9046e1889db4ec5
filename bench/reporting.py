"""What the report of a run costs, step by step, on real brokers: ``python -m bench.reporting``.

CPU time is this process's own; on a machine that has nothing else to do the rest of the time is waiting for answers.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from srm_common.airflow_bridge.lag_report import LagReport
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import StateKey
from srm_common.domain.monitoring.run_report import GroupSample, groups_record
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.topics.actions import failed
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import LocalKafka
from srm_common.usecases.monitoring.raw_metrics import publish_report
from srm_common.usecases.monitoring.report_run import keep_report, make_report
from srm_common.usecases.topics.refresh_topics import refresh_topics

#: Seconds by the clock, seconds of CPU.
Taken = tuple[float, float]


@click.command()
@click.option("--topics", default=1_000, show_default=True)
@click.option("--partitions", default=10, show_default=True, help="Of each topic.")
@click.option("--groups", default=1_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--url", help="Of an empty database, as SQLAlchemy writes it.  [default: SQLite]")
def main(topics: int, partitions: int, groups: int, rounds: int, url: str | None) -> None:
    """Report runs of a flow with so many topics, whose records are made up."""
    with (
        tempfile.TemporaryDirectory(prefix="srm-bench-") as folder,
        LocalKafka(name="source") as source,
        LocalKafka(name="target") as target,
    ):
        flow = _flow(source, target)
        ensure_state_topics(flow)
        assert not failed(refresh_topics(flow).results)
        store = MetricsStore(url or f"sqlite:///{folder}/metrics.db")
        taken: dict[str, list[Taken]] = {}
        for number in range(rounds):
            with FlowState(flow) as state:
                state.write("run", _record(flow, number, topics, partitions).to_json())
                state.write(StateKey.GROUPS, groups_record(_groups(groups)))
            _round(flow, f"run-{number}", store, taken)
        store.close()
        size = Path(folder, "metrics.db").stat().st_size if url is None else None
    click.echo(f"{topics * partitions:,} partitions in {topics:,} topics, {groups:,} groups; medians of {rounds}")
    click.echo(f"{'':<42}{'time':>10}{'CPU':>10}")
    for step, times in taken.items():
        wall, cpu = (statistics.median(figures) for figures in zip(*times, strict=True))
        click.echo(f"{step:<42}{wall:>8.3f} s{cpu:>8.3f} s")
    if size is not None:
        click.echo(f"the database has {size / 1e6:.1f} MB")


def _round(flow: FlowSettings, run_id: str, store: MetricsStore, taken: dict[str, list[Taken]]) -> None:
    begun = time.perf_counter(), time.process_time()

    def timed(step: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter(), time.process_time()
        result = work()
        taken.setdefault(step, []).append(_since(start))
        return result

    report = timed("build (records, heartbeats, clocks)", lambda: make_report(flow, run_id))
    fault = timed("write to the metrics store", lambda: keep_report(report, store))
    lag = LagReport.of(report)
    timed("metrics for Airflow", lambda: list(lag.metrics()))
    timed("asset state and log", lambda: (lag.asset_state(None, 0), lag.text()))
    taken.setdefault("all of the task", []).append(_since(begun))
    other = timed("(raw metrics to Kafka)", lambda: publish_report(replace(flow, metrics_topic=True), report))
    assert (fault, other) == (None, None)


def _since(start: Taken) -> Taken:
    return time.perf_counter() - start[0], time.process_time() - start[1]


def _flow(source: LocalKafka, target: LocalKafka) -> FlowSettings:
    plain = ClusterSettings.plaintext
    return FlowSettings(
        FlowName("a", "b"),
        plain("a", source.bootstrap_servers),
        plain("b", target.bootstrap_servers),
        enabled=True,
        replication_factor=1,
        internal_replication_factor=1,
        status_replication_factor=1,
        config_replication_factor=1,
        heartbeats_replication_factor=1,
        checkpoints_replication_factor=1,
        offset_syncs_replication_factor=1,
    )


def _record(flow: FlowSettings, number: int, topics: int, partitions: int) -> RunRecord:
    now_ms = int(time.time() * 1000)
    rows = [
        PartitionRecord(
            f"team-{topic % 17}.service.topic-{topic}",
            f"a.team-{topic % 17}.service.topic-{topic}",
            partition,
            records=200 + topic,
            bytes=100_000 + topic * partition,
            position=1_000_000 * (number + 1),
            end=1_000_000 * (number + 1) + topic % 3,
            latency_ms_min=120.5,
            latency_ms_max=2_500.25 + topic,
            latency_ms_avg=800.125 + partition,
            last_record_timestamp_ms=now_ms - 1_000,
            transactions=4,
            records_total=(200 + topic) * (number + 1),
            bytes_total=(100_000 + topic * partition) * (number + 1),
            latencies=LatencyHistogram(((24, 20), (36, 100 + topic), (40, 80))),
        )
        for topic in range(topics)
        for partition in range(partitions)
    ]
    run_id = f"run-{number}"
    return RunRecord(str(flow.name), run_id, now_ms - 5_000, now_ms, 1, RunState.DONE, partitions=tuple(rows))


def _groups(count: int) -> list[GroupSample]:
    now_ms = int(time.time() * 1000)
    return [
        GroupSample(f"service-{number}", 10, 10, checkpoint_latency_ms=40.0, checkpoint_ms=now_ms)
        for number in range(count)
    ]


if __name__ == "__main__":
    main()
