"""The series of MirrorMaker 2, under the names that they have there; durations are in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from srm_common.domain.metrics.metric import MIRROR_MAKER_METRICS, Metric
from srm_common.rest.prometheus.exposition import Series, T
from srm_common.rest.prometheus.series import (
    BYTES,
    LAG,
    LATENCY_AVG,
    LATENCY_MAX,
    LATENCY_MIN,
    RECORDS,
    average,
)
from srm_common.store.rows import GroupRow, PartitionRow, TopicRow


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
        texts = {one.attribute: one.text for one in MIRROR_MAKER_METRICS}

        def named(prefix: str, attribute: str, value: Callable[[T], float | None]) -> Series[T]:
            # Only a counter whose name ends in _total may say that it is one.
            kind: Literal["gauge", "untyped"] = "untyped" if attribute.endswith("-count") else "gauge"
            return Series(f"{prefix}_{attribute.replace('-', '_')}", texts[attribute], value, kind)

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
#: A dedicated MirrorMaker 2 calls connectors like their classes.
MIRROR_MAKER: dict[str, MirrorMakerSeries] = {
    "legacy": MirrorMakerSeries.of(
        "kafka_connect_mirror_mirrorsourceconnector", "kafka_connect_mirror_mirrorcheckpointconnector"
    ),
    "new": MirrorMakerSeries.of(
        *("kafka_connect_plugins", "kafka_connect_plugins"),
        *('connector="MirrorSourceConnector",task="0",', 'connector="MirrorCheckpointConnector",task="0",'),
    ),
}
