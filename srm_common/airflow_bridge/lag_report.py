"""The lag of a flow after a run: from the run record to metrics, the asset's state and the task's log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from srm_common.domain.amount import Amount, counted
from srm_common.domain.flow import ARROW, FlowName
from srm_common.domain.health.health import Health
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.metrics.metric import BY_METRIC, DEFINITIONS, Across, Level, Metric
from srm_common.domain.metrics.samples import by_topic, flow_samples, partition_samples
from srm_common.domain.metrics.stats import PERCENTILES, Sample
from srm_common.domain.monitoring.flow_history import NO_RUNS, FlowHistory
from srm_common.domain.monitoring.folding import fold
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport, by_distance
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord

# Airflow keeps values of at most 65,535 bytes; a flow may have thousands of topics.
MAX_STATE_BYTES = 60_000
# Of a name for StatsD (stat_name_default_handler).
MAX_NAME = 250
_LOG = logging.getLogger(__name__)
_OF_EACH_CLUSTER = (Metric.HEARTBEAT_AGE, Metric.HEARTBEAT_LATENCY)


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class AirflowMetric:
    """One figure with its tags. Counters hold what this run adds."""

    name: str
    kind: MetricKind
    value: float
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """One upstream topic, all partitions together."""

    topic: str
    remote_topic: str
    partitions: int
    failed_partitions: int
    records: int
    bytes: int
    lag: Amount
    last_record_ms: int | None

    @classmethod
    def of(cls, partitions: list[PartitionRecord]) -> TopicFigures:
        stamps = [p.last_record_timestamp_ms for p in partitions if p.last_record_timestamp_ms is not None]
        return cls(
            topic=partitions[0].upstream_topic,
            remote_topic=partitions[0].downstream_topic,
            partitions=len(partitions),
            failed_partitions=sum(p.error is not None for p in partitions),
            records=sum(p.records for p in partitions),
            bytes=sum(p.bytes for p in partitions),
            lag=Amount.sum(Amount.of(p.lag) for p in partitions),
            last_record_ms=max(stamps, default=None),
        )

    def to_json(self) -> dict[str, Any]:
        """``lag`` is null unless it is known for every partition; ``lag_bounds`` has what is known."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {**found, "lag": self.lag.most, "lag_bounds": self.lag.to_json()}


@dataclass(frozen=True, slots=True)
class LagReport:
    """A run's report, and how the flow does after it. ``silence`` says that heartbeats are absent."""

    report: RunReport
    health: Health
    silence: str | None = None

    @classmethod
    def of(cls, report: RunReport, health: Health | None = None, history: FlowHistory | None = None) -> LagReport:
        """``health`` None: derived from the report alone, without the history."""
        if history is None:
            history = fold(NO_RUNS, report)
        if health is None:
            health = judge(observe(FlowName.parse(report.flow), history, None, None, report.reported_ms)).health
        return cls(report, health, history.heartbeat_silence)

    @property
    def reason(self) -> str | None:
        """Why the run was not good, in one sentence; None for one that was."""
        return None if self.report.ok else self.health.cause

    @property
    def flow(self) -> str:
        return self.report.flow

    @property
    def run_id(self) -> str:
        return self.report.run_id

    @property
    def record(self) -> RunRecord | None:
        return self.report.run

    @property
    def heartbeats(self) -> HeartbeatReport | None:
        return self.report.heartbeats

    @property
    def warning(self) -> str | None:
        """What does not keep the flow from copying but needs attention, absent heartbeats among
        it; None when there is nothing."""
        return "; ".join(sentence for sentence in (*self.report.warnings, self.silence) if sentence) or None

    @property
    def topics(self) -> list[TopicFigures]:
        """Sorted by name."""
        grouped: dict[str, list[PartitionRecord]] = {}
        for partition in self.record.partitions if self.record else ():
            grouped.setdefault(partition.upstream_topic, []).append(partition)
        return [TopicFigures.of(grouped[topic]) for topic in sorted(grouped)]

    def metrics(self) -> Iterator[AirflowMetric]:
        """For Airflow's metrics (docs/metrics.md)."""
        # As in the asset's address: StatsD refuses names with a '>' in them.
        flow = {"flow": self.flow.replace(ARROW, "/")}
        yield AirflowMetric("srm.flow_ok", MetricKind.GAUGE, float(self.report.ok is True), flow)
        yield from self._of_heartbeats(flow)
        if self.record is None:
            return
        yield from _sent(Level.FLOW, flow_samples(self.report), flow)
        for topic, partitions in by_topic(self.record.partitions).items():
            tags = {**flow, "topic": topic}
            yield from _sent(Level.TOPIC, partition_samples(self.report, partitions), tags)
            for partition in partitions:
                yield from self._of_partition(partition, {**tags, "partition": str(partition.partition)})

    def _of_heartbeats(self, flow: Mapping[str, str]) -> Iterator[AirflowMetric]:
        """Of every cluster upstream, where the table has the source's only."""
        for beat in by_distance(self.heartbeats.to_json()["heartbeats"]) if self.heartbeats else ():
            tags = {**flow, "cluster": beat["cluster"], "hops": str(beat["hops"])}
            for metric, value in (
                (Metric.HEARTBEAT_AGE, beat["age_ms"]),
                (Metric.HEARTBEAT_LATENCY, beat["latency_ms"]),
            ):
                if value is not None:
                    yield AirflowMetric(BY_METRIC[metric].airflow, MetricKind.GAUGE, float(value), tags)

    def _of_partition(self, one: PartitionRecord, tags: Mapping[str, str]) -> Iterator[AirflowMetric]:
        yield from _sent(Level.PARTITION, partition_samples(self.report, (one,)), tags)
        for name, count in (
            ("srm.records", one.records),
            ("srm.bytes", one.bytes),
            ("srm.reencoded_records", one.reencoded_records),
            ("srm.retries", one.retries),
            ("srm.errors", int(one.error is not None)),
        ):
            if count:
                yield AirflowMetric(name, MetricKind.COUNTER, count, tags)

    def asset_state(self, before: Mapping[str, Any] | None, now_ms: int) -> dict[str, Any]:
        """Values by key for the flow's asset; ``before`` is the ``status`` it has. Figures that are not known now are
        left out, so that the last known ones stay."""
        state = self.health.state.value
        same = before is not None and before.get("state") == state
        status = {
            "state": state,
            "cause": self.health.cause,
            "reason": self.reason,
            "warning": self.warning,
            "since_ms": before["since_ms"] if before is not None and same else now_ms,
            "run_id": self.run_id,
            "reported_ms": now_ms,
        }
        found: dict[str, Any] = {"status": status}
        if self.heartbeats is not None:
            found["heartbeats"] = self.heartbeats.to_json()
        if self.record is None:
            return found
        topics, left_out = _fitting([topic.to_json() for topic in self.topics])
        figures = {
            "run_id": self.record.run_id,
            "started_ms": self.record.started_ms,
            "finished_ms": self.record.finished_ms,
            "passes": self.record.passes,
            "partitions": len(self.record.partitions),
            "failed_partitions": len(self.record.failed_partitions),
            "records": self.record.records,
            "bytes": self.record.bytes,
            "lag": self.record.backlog.most,
            "lag_bounds": self.record.backlog.to_json(),
            "topics_left_out": left_out,
        }
        return {**found, "figures": figures, "topics": topics}

    def text(self) -> str:
        """For people: one line of verdict, then a line per topic, then what failed."""
        lines = [f"{self.flow}: {self.health.state.value.replace('_', ' ')}: {self.health.cause}"]
        rows = [("topic", "partitions", "copied", "bytes", "behind", "failed")]
        rows += [
            (t.topic, f"{t.partitions}", f"{t.records:,}", f"{t.bytes:,}", t.lag.short(), f"{t.failed_partitions}")
            for t in self.topics
        ]
        if len(rows) > 1:
            widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
            for name, *figures in rows:
                cells = [name.ljust(widths[0])]
                cells += [figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)]
                lines.append("  ".join(cells))
        if self.heartbeats is not None and (sentence := self.heartbeats.sentence()):
            lines.append(sentence)
        if self.record is not None:
            lines += [partition.trouble for partition in self.record.failed_partitions]
        return "\n".join(lines)


def send(metrics: Iterable[AirflowMetric]) -> None:
    """To wherever this Airflow sends its own metrics: StatsD, Datadog, OpenTelemetry or nowhere."""
    from airflow.sdk.observability import stats

    # Functions of the module since Airflow 3.3, methods of one object before.
    sink = stats if hasattr(stats, "gauge") else stats.Stats
    if _names_have_tags():
        metrics, sentence = with_short_names(metrics)
        if sentence is not None:
            _LOG.warning("%s", sentence)
    for metric in metrics:
        if metric.kind is MetricKind.GAUGE:
            sink.gauge(metric.name, metric.value, tags=dict(metric.tags))
        else:
            sink.incr(metric.name, round(metric.value), tags=dict(metric.tags))


def _names_have_tags() -> bool:
    """Whether Airflow refuses long names together with their tags, as for StatsD in InfluxDB's dialect, each with a
    traceback in the task's log."""
    from airflow.sdk.configuration import conf

    def on(key: str) -> bool:
        return bool(conf.getboolean("metrics", key, fallback=False))

    own = conf.get("metrics", "stat_name_handler", fallback=None)
    return on("statsd_on") and on("statsd_influxdb_enabled") and not on("statsd_datadog_enabled") and not own


def with_short_names(metrics: Iterable[AirflowMetric]) -> tuple[list[AirflowMetric], str | None]:
    """Those whose names have at most :data:`MAX_NAME` characters with their tags; a sentence about the others."""
    short, topics, left_out = [], set(), 0
    for metric in metrics:
        # As Airflow writes them: ",flow=a/b".
        if len(metric.name) + sum(len(key) + len(value) + 2 for key, value in metric.tags.items()) <= MAX_NAME:
            short.append(metric)
            continue
        left_out += 1
        topics.add(metric.tags.get("topic", ""))
    if not left_out:
        return short, None
    return short, (
        f"{counted(left_out, 'figure')} of {counted(len(topics), 'topic')} cannot be sent to StatsD, because their "
        f"names have more than {MAX_NAME} characters with tags, the first topic: {min(topics)}"
    )


def _sent(level: Level, samples: Mapping[Metric, Sample], tags: Mapping[str, str]) -> Iterator[AirflowMetric]:
    """The metrics that are sent at ``level``; counters where they count something."""
    for definition in DEFINITIONS:
        sample = samples.get(definition.metric)
        if sample is not None and sample.latencies is not None and level is Level.FLOW:
            # Of flows only: each partition would have as many again.
            for end, share in PERCENTILES.items():
                if (value := sample.percentile(share)) is not None:
                    yield AirflowMetric(f"{definition.airflow}_{end}", MetricKind.GAUGE, value, tags)
        if sample is None or definition.airflow_level is not level or definition.metric in _OF_EACH_CLUSTER:
            continue
        if definition.counter:
            if sample.sum:
                yield AirflowMetric(definition.airflow, MetricKind.COUNTER, sample.sum, tags)
        elif definition.across is Across.POOL:
            for end, value in (("min", sample.min), ("avg", sample.value), ("max", sample.max)):
                yield AirflowMetric(f"{definition.airflow}_{end}", MetricKind.GAUGE, value, tags)
        else:
            yield AirflowMetric(definition.airflow, MetricKind.GAUGE, sample.value, tags)


def _fitting(topics: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """As many topics as Airflow stores, those with failed partitions and those furthest behind first; and how many are
    left out."""
    chosen, used = [], 2
    for topic in sorted(
        topics, key=lambda topic: (-topic["failed_partitions"], -topic["lag_bounds"]["least"], topic["topic"])
    ):
        used += len(json.dumps(topic)) + 2
        if used > MAX_STATE_BYTES:
            break
        chosen.append(topic)
    return sorted(chosen, key=lambda topic: str(topic["topic"])), len(topics) - len(chosen)
