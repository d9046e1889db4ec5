"""What the metrics store costs: ``python -m bench.store``.

A database is filled as if all flows had reported for so long (:mod:`bench.month`), then the page's queries are
run, each for a few flows in turn, and reports are written. The whole, 30 days of 100 flows with 100 topics each, is 90
million samples: some minutes, 7 GB in SQLite, 15 GB in PostgreSQL.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from sqlalchemy import create_engine, event, text

from bench.history import Shape, flow_names, reports, topic_names
from bench.month import Month, fill
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import TimeRange
from srm_common.errors import SrmError
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.tiers import bucket_start
from srm_common.testing.local_postgres import LocalPostgres

_DAY, _HOUR = 86_400_000, 3_600_000
_INTERVAL_MS = 30_000
_TIMES = 5


class Bench:
    """One database."""

    def __init__(self, url: str, flows: int, topics: int, partitions: int, days: float, processor_time: bool) -> None:
        self.processor_time = processor_time
        self.url, self.flows, self.topics, self.partitions, self.days = url, flows, topics, partitions, days
        # In the middle of the shortest bucket: the result is combined from all tiers.
        self.end = bucket_start(int(time.time() * 1000), 1) + 4 * 60_000
        self.store = MetricsStore(url, timeout_seconds=120)
        self.figures: dict[str, Any] = {}

    def run(self, plans: bool) -> None:
        self._fill()
        self._ask()
        if plans:
            self._print_plans()
        self._write()
        self.store.close()

    def _fill(self) -> None:
        started = time.perf_counter()
        shape = Shape(flows=self.flows, topics=self.topics, partitions=self.partitions, groups=3, days=0)
        for report in reports(replace(shape, end_ms=self.end, interval_seconds=_INTERVAL_MS / 1000)):
            self.store.write(report)
        self.store.close()
        fill(self.url, Month(self.end, self.days, _INTERVAL_MS, self.partitions))
        self.figures["filled in seconds"] = round(time.perf_counter() - started)
        self.figures["samples"] = sum(self.store.samples_kept().values())
        self.figures["megabytes"] = round(self._bytes() / 1e6)

    def _bytes(self) -> int:
        with self.store.engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
                return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())

    def _ask(self) -> None:
        store, latency, topic = self.store, Metric.REPLICATION_LATENCY, topic_names(self.topics)[0]
        drawn = (Metric.BYTE_RATE, Metric.RECORDS_LAG)
        self._time("flows", lambda _: store.flows())
        for label, length in (("1h", _HOUR), ("1d", _DAY), ("7d", 7 * _DAY), ("30d", 30 * _DAY)):
            span = self._last(length)
            questions: dict[str, Callable[[str], object]] = {
                "flow_stats": partial(_ask_all, store.flow_stats, span),
                "sparklines": partial(_ask_all, store.sparklines, drawn, span),
                "topics": partial(store.topics, span=span),
                "topics by rate": partial(store.topics, span=span, order="-byte-rate", limit=20),
                "series of flow": partial(store.series, metric=latency, span=span),
                "series of topic": partial(store.series, metric=latency, span=span, topic=topic),
            }
            for name, question in questions.items():
                self._time(f"{name} {label}", question)
        self._time("partitions", store.partitions)
        self._time("runs", store.runs)
        self._time("groups", store.groups)

    def _write(self) -> None:
        """Flows that are new, and one that has its month."""
        few = Shape(flows=1, topics=100, partitions=1, days=5 * 30 / 86400, interval_seconds=30, end_ms=self.end)
        self._time_writing("100 partitions", few, "written->few")
        self._time_writing("10,000 partitions", replace(few, topics=1000, partitions=10), "written->many")
        full = replace(few, topics=self.topics, partitions=self.partitions, end_ms=self.end + 150_000)
        flow = str(flow_names(self.flows)[-1])
        self._time_writing("to a full flow", full, flow)
        # All tiers are rolled up, and what is too old is forgotten.
        self._time_writing("a day later", replace(full, days=0, end_ms=self.end + _DAY), flow)

    def _time_writing(self, label: str, shape: Shape, flow: str) -> None:
        times: list[float] = []
        for report in list(reports(shape)):
            with self._clock(times):
                self.store.write(replace(report, flow=flow))
        self.figures[f"write {label}"] = round(statistics.median(times) * 1000)

    def _last(self, length: int) -> TimeRange:
        return TimeRange(self.end + 1 - length, self.end + 1)

    def _time(self, name: str, question: Callable[[str], object]) -> None:
        names = [str(name) for name in flow_names(self.flows)]
        question(names[0])
        times: list[float] = []
        for number in range(1, _TIMES + 1):
            flow = names[number * 19 % len(names)]
            with self._clock(times):
                question(flow)
        # The processor's clock ticks too slowly for one question.
        middle = statistics.fmean(times) if self.processor_time else statistics.median(times)
        self.figures[name] = round(middle * 1000)

    @contextmanager
    def _clock(self, times: list[float]) -> Iterator[None]:
        """Adds the seconds that something took: by the clock, or of processors, this one's and the server's."""
        servers = self._server_processes() if self.processor_time else ()
        started = self._now(servers)
        yield
        times.append(self._now(servers) - started)

    def _now(self, servers: Sequence[int]) -> float:
        if not self.processor_time:
            return time.perf_counter()
        return time.process_time() + sum(map(_processor_seconds, servers))

    def _server_processes(self) -> Sequence[int]:
        """Those that answer this one; SQLite has none."""
        if self.store.engine.dialect.name == "sqlite":
            return ()
        mine = text(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type LIKE 'client%'"
        )
        with self.store.engine.connect() as connection:
            return list(connection.execute(mine).scalars())

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


def _ask_all(question: Callable[..., object], *arguments: object) -> object:
    """Of all flows at once: the last argument, a flow, is left out."""
    return question(*arguments[:-1])


def _processor_seconds(process: int) -> float:
    """Linux's account of a process, in ticks of 10 ms."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@click.command()
@click.option("--database", type=click.Choice(["sqlite", "postgresql", "both"]), default="both", show_default=True)
@click.option("--flows", default=100, show_default=True)
@click.option("--topics", default=100, show_default=True)
@click.option("--partitions", default=1, show_default=True, help="Of each topic.")
@click.option("--days", default=30.0, show_default=True)
@click.option("--plans", is_flag=True, help="Print the databases' plans, too.")
@click.option("--processor-time", is_flag=True, help="Time of processors, the server's included, for a busy machine.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(
    database: str,
    flows: int,
    topics: int,
    partitions: int,
    days: float,
    plans: bool,
    processor_time: bool,
    output: str,
) -> None:
    """Fill a metrics store and time its questions: milliseconds, medians of five; of processors' time, averages."""
    found = {}
    for kind in ("sqlite", "postgresql") if database == "both" else (database,):
        with ExitStack() as stack:
            if kind == "sqlite":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="srm-store-"))
                url = f"sqlite:///{Path(folder) / 'metrics.db'}"
            else:
                url = stack.enter_context(_server()).create("metrics")
            bench = Bench(url, flows, topics, partitions, days, processor_time)
            bench.run(plans)
            found[kind] = bench.figures
            if output == "text":
                print(f"\n{kind}")
                for name, value in bench.figures.items():
                    print(f"{name:>28}  {value:,}", flush=True)
    if output == "json":
        print(json.dumps(found))


@contextmanager
def _server() -> Iterator[LocalPostgres]:
    """One that writes no log for a table that is filled in the transaction that made it."""
    programs = LocalPostgres.programs()
    if programs is None:
        raise SrmError("no PostgreSQL server is installed here")
    with LocalPostgres(programs) as server:
        engine = create_engine(server.url())
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ALTER SYSTEM SET wal_level = minimal"))
            connection.execute(text("ALTER SYSTEM SET max_wal_senders = 0"))
        engine.dispose()
        server.stop()
        server.start()
        yield server


if __name__ == "__main__":
    main()
