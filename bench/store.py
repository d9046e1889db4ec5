"""What the metrics store costs: ``python -m bench.store``.

A database is filled as if all flows had reported for so long, then the questions of the page are asked. It is filled
by SQL, tier by tier, as the roll-up would leave it; what a report costs is measured by writing reports. Only
``--detailed`` flows have history of topics: the key begins with flow and time, so the others' is never looked at.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from sqlalchemy import create_engine, event, text

from bench.history import Shape, flow_names, reports, topic_names
from srm_common.domain.monitoring.metric import Metric
from srm_common.domain.monitoring.time_range import TimeRange
from srm_common.errors import SrmError
from srm_common.store.level import Level
from srm_common.store.metric_codes import CODES
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.tiers import BUCKETS_MS, RAW, Retention, bucket_start
from srm_common.testing.local_postgres import LocalPostgres

_DAY, _HOUR = 86_400_000, 3_600_000
_INTERVAL_MS = 30_000
_TOPIC_METRICS = 7
_FILL = """
INSERT INTO sample (flow_id, level, tier, at_ms, topic_id, number, metric, count, low, high, total, latest, latest_ms)
WITH RECURSIVE times(at_ms) AS (
    SELECT CAST(:start AS BIGINT) UNION ALL SELECT at_ms + :step FROM times WHERE at_ms + :step < :end
), metrics(metric) AS (SELECT 1 UNION ALL SELECT metric + 1 FROM metrics WHERE metric < :metrics)
SELECT flow.id, :level, :tier, at_ms, {topic}, -1, metric, 10, 0, 1000.5, 5000.25, at_ms % 977, at_ms + 1
FROM flow {joined} CROSS JOIN times CROSS JOIN metrics
WHERE flow.id <= :flows
"""


class Bench:
    """One database."""

    def __init__(self, url: str, flows: int, topics: int, days: float, detailed: int, processor_time: bool) -> None:
        self.processor_time = processor_time
        self.url, self.flows, self.topics, self.days, self.detailed = url, flows, topics, days, detailed
        self.end = bucket_start(int(time.time() * 1000), 1) + 4 * 60_000
        self.store = MetricsStore(url, timeout_seconds=120)
        self.figures: dict[str, Any] = {}

    def run(self, plans: bool) -> None:
        self._fill()
        self._ask()
        self._write()
        if plans:
            self._print_plans()
        self.store.close()

    def _fill(self) -> None:
        started = time.perf_counter()
        shape = Shape(flows=self.flows, topics=self.topics, partitions=1, groups=3, days=0, end_ms=self.end)
        for report in reports(shape):
            self.store.write(report)
        engine = create_engine(self.url)
        kept = Retention().of(Level.FLOW)
        for tier, length in enumerate(BUCKETS_MS):
            step = _INTERVAL_MS if tier == RAW else length
            start = bucket_start(self.end - min(kept[tier], int(self.days * _DAY)), tier)
            end = self.end if tier == RAW else bucket_start(self.end, tier)
            span = {"start": start, "end": end, "step": step, "tier": tier}
            with engine.begin() as connection:
                flows = {**span, "level": int(Level.FLOW), "metrics": len(CODES), "flows": self.flows}
                connection.execute(text(_FILL.format(topic="0", joined="")), flows)
                topics = {**span, "level": int(Level.TOPIC), "metrics": _TOPIC_METRICS, "flows": self.detailed}
                joined = "JOIN topic ON topic.flow_id = flow.id"
                connection.execute(text(_FILL.format(topic="topic.id", joined=joined)), topics)
        with engine.begin() as connection:
            connection.execute(text("ANALYZE"))
        engine.dispose()
        self.figures["samples"] = sum(self.store.samples_kept().values())
        self.figures["filled_seconds"] = round(time.perf_counter() - started, 1)

    def _ask(self) -> None:
        store, graphs, latency = self.store, (Metric.BYTE_RATE, Metric.RECORDS_LAG), Metric.REPLICATION_LATENCY
        flow = str(flow_names(self.flows)[0])  # the first one has history of topics
        topic = topic_names(self.topics)[0]
        self._time("flows", store.flows)
        for label, length in (("1h", _HOUR), ("1d", _DAY), ("7d", 7 * _DAY), ("30d", 30 * _DAY)):
            span = self._last(length)
            self._time(f"flow_stats {label}", partial(store.flow_stats, span))
            self._time(f"sparklines {label}", partial(store.sparklines, graphs, span))
            self._time(f"topics {label}", partial(store.topics, flow, span))
            self._time(f"topics by rate {label}", partial(store.topics, flow, span, order="-byte-rate", limit=20))
            self._time(f"series of flow {label}", partial(store.series, flow, latency, span))
            self._time(f"series of topic {label}", partial(store.series, flow, latency, span, topic=topic))
        self._time("partitions", partial(store.partitions, flow))
        self._time("runs", partial(store.runs, flow))
        self._time("groups", partial(store.groups, flow))

    def _write(self) -> None:
        for label, topics, partitions in (("100 partitions", 100, 1), ("10,000 partitions", 1000, 10)):
            shape = Shape(
                flows=1, topics=topics, partitions=partitions, days=5 * 30 / 86400, interval_seconds=30, end_ms=self.end
            )
            told = list(reports(shape))
            clock = time.process_time if self.processor_time else time.perf_counter
            times = []
            other = MetricsStore(self.url, timeout_seconds=120)
            for report in told:
                started = clock()
                other.write(replace(report, flow=f"written->{topics}"))
                times.append(clock() - started)
            other.close()
            self.figures[f"write {label}"] = round(statistics.median(times) * 1000)

    def _last(self, length: int) -> TimeRange:
        return TimeRange(self.end + 1 - length, self.end + 1)

    def _time(self, name: str, question: Callable[[], object]) -> None:
        question()
        clock = time.process_time if self.processor_time else time.perf_counter
        times = []
        for _ in range(5):
            started = clock()
            question()
            times.append(clock() - started)
        self.figures[name] = round(statistics.median(times) * 1000)

    def _print_plans(self) -> None:
        """Of each different statement that a question sends."""
        engine = self.store.engine
        word = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN (ANALYZE, BUFFERS)"
        seen: dict[str, Any] = {}

        @event.listens_for(engine, "before_cursor_execute")
        def _noted(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
            if statement.startswith("SELECT") and not many:
                seen.setdefault(statement, parameters)

        span = self._last(7 * _DAY)
        flow = self.store.flows()[0].flow
        topic = self.store.topics(flow, span, order="-byte-rate").rows[0].topic
        self.store.flow_stats(span)
        self.store.sparklines([Metric.BYTE_RATE], span)
        self.store.series(flow, Metric.BYTE_RATE, span, topic=topic)
        event.remove(engine, "before_cursor_execute", _noted)
        with engine.connect() as connection:
            for statement, parameters in seen.items():
                print("\n" + " ".join(statement.split())[:300])
                for row in connection.exec_driver_sql(f"{word} {statement}", parameters):
                    print("   ", row[-1])


@click.command()
@click.option("--database", type=click.Choice(["sqlite", "postgresql", "both"]), default="both", show_default=True)
@click.option("--flows", default=100, show_default=True)
@click.option("--topics", default=100, show_default=True)
@click.option("--days", default=30.0, show_default=True)
@click.option("--detailed", default=3, show_default=True, help="Flows with history of topics.")
@click.option("--plans", is_flag=True, help="Print the databases' plans, too.")
@click.option(
    "--processor-time", is_flag=True, help="Time of this process's processor, for a busy machine; SQLite's only."
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(
    database: str, flows: int, topics: int, days: float, detailed: int, plans: bool, processor_time: bool, output: str
) -> None:
    """Fill a metrics store and time its questions; all figures but the first two are milliseconds, medians of five."""
    found = {}
    with ExitStack() as stack:
        for kind in ("sqlite", "postgresql") if database == "both" else (database,):
            if kind == "sqlite":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="srm-store-"))
                url = f"sqlite:///{Path(folder) / 'metrics.db'}"
            else:
                programs = LocalPostgres.programs()
                if programs is None:
                    raise SrmError("no PostgreSQL server is installed here")
                url = stack.enter_context(LocalPostgres(programs)).create("metrics")
            bench = Bench(url, flows, topics, days, detailed, processor_time)
            bench.run(plans)
            found[kind] = bench.figures
    if output == "json":
        print(json.dumps(found))
        return
    for kind, figures in found.items():
        print(f"\n{kind}")
        for name, value in figures.items():
            print(f"{name:>28}  {value}")


if __name__ == "__main__":
    main()
