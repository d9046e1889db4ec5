"""The series that Prometheus scrapes: our own, and those of MirrorMaker 2 under its names.

Nothing is measured here: these are the figures of each flow's last report, its lag as queried last, and its present
health. How old they are is a series, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Self

from srm_common.domain.flow import FlowName
from srm_common.domain.health.health import AlarmKind, HealthState, Severity
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.mirror_maker import MIRROR_MAKER_METRICS
from srm_common.domain.monitoring.heartbeat_report import by_distance
from srm_common.rest.prometheus.exposition import (
    Series,
    Sources,
    T,
    escaped,
    family,
    histogram_family,
    labels,
    large_family,
)
from srm_common.rest.prometheus.series import (
    ALARM,
    BUILD_INFO,
    FLOW_LATENCY,
    FLOW_SERIES,
    GROUP_SERIES,
    HEALTH,
    HEARTBEAT_LATENCY,
    HEARTBEAT_WRITTEN,
    SCHEDULER_UP,
    STORE_UP,
    FlowFigures,
    average,
)
from srm_common.rest.prometheus.topic_series import (
    BYTES,
    LAG,
    LATENCY_AVG,
    LATENCY_MAX,
    LATENCY_MIN,
    PARTITION_SERIES,
    RECORDS,
    TOPIC_SERIES,
)
from srm_common.store.rows import GroupRow, PartitionRow, TopicRow


class Detail(StrEnum):
    """How detailed the series are; each level includes the coarser ones."""

    FLOW = "flow"
    TOPIC = "topic"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Figures of the service itself; ``scheduler_up`` is None where there is no scheduler."""

    version: str
    store_up: bool
    scheduler_up: bool | None = None


def render(
    service: ServiceFigures,
    flows: Sequence[FlowFigures],
    detail: Detail = Detail.PARTITION,
    *,
    mirror_maker: bool = True,
) -> str:
    """The whole text.

    Args:
        mirror_maker: with MirrorMaker 2's series, under the names that each flow has chosen; those of partitions come
            only with that detail.
    """
    lines = list(_service(service))
    named = [(labels({"source": flow.name.source, "target": flow.name.target}), flow) for flow in flows]
    for flow_series in FLOW_SERIES:
        lines += family(flow_series, named)
    lines += family(HEALTH, _each_state(named))
    lines += family(ALARM, _each_alarm(named))
    lines += _heartbeats(named)
    lines += histogram_family(FLOW_LATENCY, named)
    groups = [(f'{prefix},group="{escaped(row.sample.group)}"', row) for prefix, one in named for row in one.groups]
    for group_series in GROUP_SERIES:
        lines += family(group_series, groups)
    if detail is not Detail.FLOW:
        topics = [(f'{prefix},topic="{escaped(row.topic)}"', row) for prefix, one in named for row in one.topics]
        for topic_series in TOPIC_SERIES:
            lines += family(topic_series, topics)
    partitions = {flow.name: Sources(flow.partitions, flow.rate_factor) for flow in flows}
    if detail is Detail.PARTITION:
        lines += _partitions(named, partitions, PARTITION_SERIES, lambda row: row.topic)
    for names_format, series in MIRROR_MAKER.items() if mirror_maker else ():
        formats = [(prefix, one) for prefix, one in named if names_format in one.names_formats]
        lines += _mirror_maker(series, formats, detail)
        if detail is Detail.PARTITION:
            of_source = [(series.source_labels + prefix, one) for prefix, one in formats]
            lines += _partitions(of_source, partitions, series.partitions, lambda row: row.remote_topic)
    lines.append("")
    return "\n".join(lines)


def _service(service: ServiceFigures) -> Iterator[str]:
    yield from family(BUILD_INFO, [(labels({"version": service.version}), 1)])
    yield from family(STORE_UP, [("", service.store_up)])
    if service.scheduler_up is not None:
        yield from family(SCHEDULER_UP, [("", service.scheduler_up)])


def _each_state(named: Iterable[tuple[str, FlowFigures]]) -> Iterator[tuple[str, bool]]:
    for prefix, flow in named:
        for state in HealthState:
            yield f'{prefix},state="{state}"', flow.health.state is state


def _each_alarm(named: Iterable[tuple[str, FlowFigures]]) -> Iterator[tuple[str, int]]:
    for prefix, flow in named:
        raised = {kind: 0 for kind in AlarmKind}
        for alarm in flow.alarms:
            raised[alarm.kind] = max(raised[alarm.kind], 2 if alarm.severity is Severity.CRITICAL else 1)
        for kind, level in raised.items():
            yield f'{prefix},kind="{kind}"', level


def _heartbeats(named: Iterable[tuple[str, FlowFigures]]) -> list[str]:
    beats = [
        (f"{prefix},{labels({'cluster': str(beat['cluster']), 'hops': str(beat['hops'])})}", beat)
        for prefix, flow in named
        if flow.row is not None and flow.row.heartbeats is not None
        for beat in by_distance(flow.row.heartbeats["heartbeats"])
    ]
    return family(HEARTBEAT_WRITTEN, beats) + family(HEARTBEAT_LATENCY, beats)


def _mirror_maker(table: MirrorMakerSeries, named: Sequence[tuple[str, FlowFigures]], detail: Detail) -> list[str]:
    """Series of groups, and of topics where there are none of partitions."""
    groups = [
        (f'{table.checkpoint_labels}{prefix},group="{escaped(row.sample.group)}"', row)
        for prefix, flow in named
        for row in flow.groups
    ]
    lines = [line for series in table.groups for line in family(series, groups)]
    if detail is Detail.TOPIC:
        topics = [
            (f'{table.source_labels}{prefix},topic="{escaped(row.remote_topic)}"', row)
            for prefix, flow in named
            for row in flow.topics
        ]
        lines += [line for series in table.topics for line in family(series, topics)]
    return lines


def _partitions(
    named: Iterable[tuple[str, FlowFigures]],
    sources: Mapping[FlowName, Sources[PartitionRow]],
    table: Sequence[Series[PartitionRow]],
    topic_of: Callable[[PartitionRow], str],
) -> list[str]:
    parts = [
        (
            sources[flow.name],
            [f'{{{prefix},topic="{escaped(topic_of(row))}",partition="{row.partition}"}} ' for row in flow.partitions],
        )
        for prefix, flow in named
    ]
    return [line for series in table for line in large_family(series, parts)]


def _age(row: PartitionRow) -> float | None:
    return None if row.newest_record_ms is None else row.reported_ms - row.newest_record_ms


_MM2_VALUES: dict[str, Callable[[PartitionRow], float | None]] = {
    "record-count": RECORDS,
    "record-rate": lambda row: row.record_rate,
    "byte-count": BYTES,
    "byte-rate": lambda row: row.byte_rate,
    "record-age-ms": _age,
    "record-age-ms-min": LATENCY_MIN,
    "record-age-ms-avg": LATENCY_AVG,
    "record-age-ms-max": LATENCY_MAX,
    "replication-latency-ms": LATENCY_AVG,
    "replication-latency-ms-min": LATENCY_MIN,
    "replication-latency-ms-avg": LATENCY_AVG,
    "replication-latency-ms-max": LATENCY_MAX,
    "replication-records-lag": LAG,
}


@dataclass(frozen=True, slots=True)
class MirrorMakerSeries:
    """MirrorMaker 2's metrics under one format of their names, as the JMX exporter writes them: by partition, by topic
    where there are none of partitions, and by group. The labels come before all others."""

    partitions: tuple[Series[PartitionRow], ...]
    topics: tuple[Series[TopicRow], ...]
    groups: tuple[Series[GroupRow], ...]
    source_labels: str
    checkpoint_labels: str

    @classmethod
    def of(cls, source: str, checkpoint: str, source_labels: str = "", checkpoint_labels: str = "") -> Self:
        """``source`` and ``checkpoint`` are what the names of the connectors' series begin with."""
        texts = {metric.attribute: metric.text for metric in MIRROR_MAKER_METRICS}

        def named(prefix: str, attribute: str, value: Callable[[T], float | None]) -> Series[T]:
            # Only a counter whose name ends in _total may say that it is one.
            kind: Literal["gauge", "untyped"] = "untyped" if attribute.endswith("-count") else "gauge"
            scaled = attribute in ("record-rate", "byte-rate")
            return Series(f"{prefix}_{attribute.replace('-', '_')}", texts[attribute], value, kind, scaled)

        return cls(
            tuple(named(source, attribute, value) for attribute, value in _MM2_VALUES.items()),
            (
                named(source, "byte-rate", average(Metric.BYTE_RATE)),
                named(source, "record-rate", average(Metric.RECORD_RATE)),
            ),
            tuple(
                named(checkpoint, f"checkpoint-latency-ms{end}", lambda row: row.sample.checkpoint_latency_ms)
                for end in ("", "-min", "-avg", "-max")
            ),
            source_labels,
            checkpoint_labels,
        )


#: By the values of metric.names.formats (KIP-1280; ``MirrorSourceMetrics``, ``MirrorCheckpointMetrics`` of Kafka 4.3).
#: A dedicated MirrorMaker 2 names connectors after their classes.
MIRROR_MAKER: dict[str, MirrorMakerSeries] = {
    "legacy": MirrorMakerSeries.of(
        "kafka_connect_mirror_mirrorsourceconnector", "kafka_connect_mirror_mirrorcheckpointconnector"
    ),
    "new": MirrorMakerSeries.of(
        *("kafka_connect_plugins", "kafka_connect_plugins"),
        *('connector="MirrorSourceConnector",task="0",', 'connector="MirrorCheckpointConnector",task="0",'),
    ),
}
