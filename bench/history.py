"""Reports of flows that never ran, for tests, figures and pictures: ``python -m bench.history sqlite:///history.db``.

Everything follows from the seed. Each flow has a scenario; the first nine flows tell one each, then they begin again.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import click

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport, make_heartbeat_report
from srm_common.domain.monitoring.run_report import ClockSkew, GroupSample, RunReport, TopicGroups
from srm_common.domain.runs.latency_histogram import LatencyHistogram, bucket_of
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState

_MINUTE, _DAY = 60_000, 86_400_000
_BYTES_PER_MS = 50_000
_ALIASES = ("east", "west", "north", "south", "edge", "lake", "plant", "store", "cloud", "archive")
_TEAMS = ("orders", "payments", "shipping", "customers", "catalog", "clicks", "sensors", "audit", "prices", "stock")
_THINGS = ("created", "changed", "deleted", "events", "snapshot", "commands", "failed", "enriched", "raw", "daily")
_LOST_TEXT = "1,250 records disappeared at the source before they were copied; on.data.loss decides what to do"
_FAILED_TEXT = "not enough in-sync replicas at the target (NOT_ENOUGH_REPLICAS); the partition continues when there are"


class Scenario(StrEnum):
    """What becomes of a flow. All but STEADY turn in the last tenth of the time."""

    STEADY = "steady"
    BEHIND = "behind"  # more comes in than is copied
    FAILING = "failing"  # whole runs fail
    IDLE = "idle"  # nothing comes in
    HALF_FAILING = "half_failing"  # some partitions fail in each run
    LOST = "lost"  # records vanished at the source
    SILENT = "silent"  # it stops reporting
    UNTRANSLATED = "untranslated"  # groups without a place on the target
    CATCHING_UP = "catching_up"  # a backlog that shrinks


@dataclass(frozen=True, slots=True)
class Shape:
    """How much history. The last reports are of ``end_ms`` (epoch milliseconds)."""

    flows: int = 9
    topics: int = 20
    partitions: int = 4
    groups: int = 10
    days: float = 1.0
    interval_seconds: float = 300.0
    end_ms: int = 1_800_000_000_000
    seed: int = 1
    records_per_second: float = 4.0

    @property
    def interval_ms(self) -> int:
        return int(self.interval_seconds * 1000)

    @property
    def runs(self) -> int:
        return max(1, round(self.days * _DAY / self.interval_ms))


def flow_names(count: int) -> list[FlowName]:
    """Different ones, over as few clusters as have so many pairs."""
    clusters = 2
    while clusters * (clusters - 1) < count:
        clusters += 1
    names = [
        _ALIASES[n] if n < len(_ALIASES) else f"{_ALIASES[n % len(_ALIASES)]}{n // len(_ALIASES)}"
        for n in range(clusters)
    ]
    return [FlowName(a, b) for a in names for b in names if a != b][:count]


def topic_names(count: int) -> list[str]:
    pairs = [f"{team}.{thing}" for thing in _THINGS for team in _TEAMS]
    return [pairs[n] if n < len(pairs) else f"{pairs[n % len(pairs)]}.{n // len(pairs)}" for n in range(count)]


def scenario_of(index: int) -> Scenario:
    return tuple(Scenario)[index % len(Scenario)]


def reports(shape: Shape) -> Iterator[RunReport]:
    """All reports, the oldest first."""
    flows = [_Flow(shape, index, name) for index, name in enumerate(flow_names(shape.flows))]
    for run in range(shape.runs):
        for flow in flows:
            report = flow.report(run)
            if report is not None:
                yield report


class _Flow:
    """One flow on its way through the time."""

    def __init__(self, shape: Shape, index: int, name: FlowName) -> None:
        self._shape, self._name, self._scenario = shape, name, scenario_of(index)
        self._topics = topic_names(shape.topics)
        self._random = random.Random(f"{shape.seed}/{name}")
        self._weights = [self._random.paretovariate(1.2) for _ in self._topics]
        places = [(topic, partition) for topic in self._topics for partition in range(shape.partitions)]
        self._position = dict.fromkeys(places, 0)
        self._end = dict.fromkeys(places, 0)
        self._total = dict.fromkeys(places, 0)
        plain = ClusterSettings.plaintext
        self._settings = FlowSettings(
            name, plain(name.source, "a:9092"), plain(name.target, "b:9092"), schedule_interval_seconds=30.0
        )

    def report(self, run: int) -> RunReport | None:
        """The report of the run number ``run``, None when the flow is silent."""
        shape = self._shape
        late = run >= 0.9 * shape.runs
        at = shape.end_ms - (shape.runs - 1 - run) * shape.interval_ms
        if late and self._scenario is Scenario.SILENT:
            return None
        error = kind = None
        if late and self._scenario is Scenario.FAILING:
            error, kind = f"cluster '{self._name.target}' does not respond at b:9092 (timed out)", "UnreachableCluster"
        partitions = tuple(self._partitions(run, at, late, down=error is not None))
        failed = error is not None or any(partition.error for partition in partitions)
        took = int(
            1500 + 800 * self._random.random() + sum(partition.bytes for partition in partitions) / _BYTES_PER_MS
        )
        record = RunRecord(
            flow=str(self._name),
            run_id=f"scheduled__{at}",
            started_ms=at - took - 1000,
            finished_ms=at - 1000,
            passes=1,
            state=RunState.FAILED if failed else RunState.DONE,
            error=error,
            error_kind=kind,
            partitions=partitions,
            transactions=2 if any(partition.records for partition in partitions) else 0,
            retries=sum(partition.retries for partition in partitions),
        )
        first = run == 0
        groups = tuple(self._groups(at, late))
        return RunReport(
            flow=str(self._name),
            run_id=record.run_id,
            reported_ms=at,
            run=record,
            heartbeats=self._heartbeats(at, late and self._scenario is Scenario.FAILING),
            groups=groups,
            topic_groups=tuple(self._topic_groups(groups, at)),
            clock=ClockSkew(12.0, -3.0, 4.0),
            schedule_interval_seconds=shape.interval_seconds,
            lag_objective_records=10_000 if self._scenario is Scenario.BEHIND else None,
            decisions=self._decisions() if first else None,
            plan={"made_ms": at, "copied": shape.topics, "topics": shape.topics + 1, "failed": 0, "lost": []}
            | {"actions": [], "actions_left_out": 0, "notices": []}
            if first
            else None,
            filters={"topics": [".*"], "topics.exclude": [".*[\\-\\.]internal"], "groups": [".*"]} if first else None,
        )

    def _partitions(self, run: int, at: int, late: bool, *, down: bool) -> Iterator[PartitionRecord]:
        shape, chance, scenario = self._shape, self._random, self._scenario
        day = 1 + 0.6 * math.sin(2 * math.pi * (at % _DAY) / _DAY)
        seconds = shape.interval_ms / 1000
        for topic, weight in zip(self._topics, self._weights, strict=True):
            for partition in range(shape.partitions):
                place = (topic, partition)
                came = 0
                if not (scenario is Scenario.IDLE and late):
                    came = int(shape.records_per_second * seconds * weight * day * (0.7 + 0.6 * chance.random()))
                self._end[place] += came
                waiting = self._end[place] - self._position[place]
                share = 1.0
                if scenario is Scenario.BEHIND and late:
                    share = 0.05
                elif scenario is Scenario.CATCHING_UP:
                    share = 0.1 if run < 0.9 * shape.runs else 0.35
                error = kind = None
                lost = 0
                if late and partition == 0 and topic == self._topics[0]:
                    if scenario is Scenario.HALF_FAILING:
                        error, kind = _FAILED_TEXT, "ClusterError"
                    elif scenario is Scenario.LOST:
                        error, kind, lost = _LOST_TEXT, "DataLost", 1250
                copied = 0 if down or error is not None else math.ceil(waiting * share)
                self._position[place] += copied
                self._total[place] += copied
                latency = 250 + 500 * chance.random() + (60_000 if share < 1 else 0)
                yield PartitionRecord(
                    upstream_topic=topic,
                    downstream_topic=f"{self._name.source}.{topic}",
                    partition=partition,
                    records=copied,
                    bytes=copied * 310,
                    position=self._position[place],
                    end=self._end[place],
                    latency_ms_min=latency * 0.4 if copied else None,
                    latency_ms_max=latency * 3 if copied else None,
                    latency_ms_avg=latency if copied else None,
                    last_record_timestamp_ms=at - 1500 if copied else None,
                    transactions=int(copied > 0),
                    retries=int(chance.random() < 0.01),
                    reencoded_records=copied // 50 if topic.endswith("raw") else 0,
                    lost_records=lost,
                    error=error,
                    error_kind=kind,
                    records_total=self._total[place],
                    bytes_total=self._total[place] * 310,
                    latencies=_spread(latency, copied) if copied else None,
                )

    def _heartbeats(self, at: int, silent: bool) -> HeartbeatReport:
        age = 20 * _MINUTE if silent else 1200
        beat = Heartbeat(self._name.source, self._name.target, at - age)
        topic = f"{self._name.source}.heartbeats"
        path = (self._name.source, self._name.target)
        return make_heartbeat_report(self._settings, at, [CopiedHeartbeat(topic, path, beat, at - age + 640)])

    def _groups(self, at: int, late: bool) -> Iterator[GroupSample]:
        for number in range(self._shape.groups):
            stuck = late and self._scenario is Scenario.UNTRANSLATED and number % 3 == 0
            yield GroupSample(
                group=f"{_TEAMS[number % len(_TEAMS)]}-service-{number}",
                positions=self._shape.partitions,
                translated=0 if stuck else self._shape.partitions,
                reason="the group's offsets are older than the flow's offset map" if stuck else None,
                synced=number % 2 == 0,
                checkpoint_latency_ms=None if stuck else 30 + 40 * self._random.random(),
                checkpoint_ms=None if stuck else at - 2000,
            )

    def _topic_groups(self, groups: Sequence[GroupSample], at: int) -> Iterator[TopicGroups]:
        """Each group reads all topics."""
        found = [group.checkpoint_latency_ms for group in groups if group.checkpoint_latency_ms is not None]
        for topic in self._topics:
            if found:
                figures = (at - 2000, min(found), max(found), sum(found))
                yield TopicGroups(topic, len(groups), len(found), *figures)
            else:
                yield TopicGroups(topic, len(groups))

    def _decisions(self) -> dict[str, object]:
        rows: list[dict[str, object]] = [
            _decision(topic, f"{self._name.source}.{topic}", "included", "included by topics") for topic in self._topics
        ]
        rows.append(_decision("srm-control.internal", None, "internal", "an internal topic"))
        return {"decisions": rows}


def _decision(topic: str, remote_topic: str | None, code: str, reason: str) -> dict[str, object]:
    accepted = remote_topic is not None
    return {"topic": topic, "accepted": accepted, "code": code, "reason": reason, "remote_topic": remote_topic}


def _spread(latency: float, records: int) -> LatencyHistogram:
    """Most near the average, some at three times of it."""
    slow = records // 20
    return LatencyHistogram.of({bucket_of(round(latency * 0.8)): records - slow, bucket_of(round(latency * 3)): slow})


@click.command()
@click.argument("url")
@click.option("--flows", default=9, show_default=True)
@click.option("--topics", default=20, show_default=True)
@click.option("--partitions", default=4, show_default=True)
@click.option("--groups", default=10, show_default=True)
@click.option("--days", default=1.0, show_default=True)
@click.option("--interval", default=300.0, show_default=True, help="Seconds between two reports of a flow.")
@click.option("--seed", default=1, show_default=True)
def main(
    url: str, flows: int, topics: int, partitions: int, groups: int, days: float, interval: float, seed: int
) -> None:
    """Write reports up to now into the metrics store at URL, as SQLAlchemy writes it."""
    from srm_common.store.metrics_store import MetricsStore

    shape = Shape(flows, topics, partitions, groups, days, interval, int(time.time() * 1000), seed)
    store = MetricsStore(url)
    started = time.perf_counter()
    written = 0
    for report in reports(shape):
        store.write(report)
        written += 1
    store.close()
    print(f"{written:,} reports in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
