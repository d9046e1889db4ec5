"""Prometheus' series of topics and partitions; see :mod:`srm_common.rest.prometheus.series`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import PERCENTILES
from srm_common.rest.prometheus.exposition import Series
from srm_common.rest.prometheus.series import average, most, seconds
from srm_common.store.rows import PartitionRow, TopicRow


def _longest(topic: TopicRow) -> float | None:
    stats = topic.stats.get(Metric.REPLICATION_LATENCY)
    return None if stats is None else seconds(stats.max)


def _percentile(share: float) -> Callable[[TopicRow], float | None]:
    def value(topic: TopicRow) -> float | None:
        stats = topic.stats.get(Metric.REPLICATION_LATENCY)
        return None if stats is None else seconds(stats.percentile(share))

    return value


#: The statistics that TOPIC_SERIES needs, besides rates.
TOPIC_METRICS = (Metric.REPLICATION_LATENCY,)
TOPIC_SERIES: tuple[Series[TopicRow], ...] = (
    Series(
        "srm_topic_lag_records",
        "Source offsets of the topic that are not copied yet; absent while the lag of a partition is unknown.",
        lambda topic: most(topic.lag),
    ),
    Series(
        "srm_topic_lag_unknown_partitions",
        "Partitions of the topic whose lag is unknown.",
        lambda topic: None if topic.lag is None else topic.lag.unknown,
    ),
    Series(
        "srm_topic_lag_seconds",
        "Age of the oldest record of the topic that is not copied; 0 when all are.",
        lambda topic: seconds(topic.behind_ms),
    ),
    Series("srm_topic_partitions", "Partitions of the topic.", lambda topic: topic.partitions),
    Series(
        "srm_topic_failed_partitions",
        "Partitions of the topic that the last run could not copy.",
        lambda topic: topic.failed_partitions,
    ),
    Series(
        "srm_topic_newest_record_timestamp_seconds",
        "Time of the newest record that was copied.",
        lambda topic: seconds(topic.newest_record_ms),
    ),
    Series(
        "srm_topic_copied_bytes_per_second",
        "Bytes copied per second, averaged over the last five minutes, or three runs; 0 when nothing is copied.",
        average(Metric.BYTE_RATE),
    ),
    Series(
        "srm_topic_copied_records_per_second",
        "Records copied per second, averaged over the last five minutes, or three runs; 0 when nothing is copied.",
        average(Metric.RECORD_RATE),
    ),
    Series(
        "srm_topic_copied_records_total",
        "Records of the topic copied by all runs.",
        lambda topic: topic.records_total,
        kind="counter",
    ),
    Series(
        "srm_topic_copied_bytes_total",
        "Bytes of the topic copied by all runs.",
        lambda topic: topic.bytes_total,
        kind="counter",
    ),
    Series(
        "srm_topic_skipped_records_total",
        "Records of the topic that transforms could not handle and all runs left out.",
        lambda topic: topic.skipped_records_total,
        kind="counter",
    ),
    Series(
        "srm_topic_dead_letters_total",
        "Those of them that are in the dead letter topic.",
        lambda topic: topic.dead_letters_total,
        kind="counter",
    ),
    Series(
        "srm_topic_replication_latency_max_seconds",
        "Longest time from a record at the source to its commit on the target, in the last minutes.",
        _longest,
    ),
    *(
        Series(
            f"srm_topic_replication_latency_{name}_seconds",
            f"Latency that {share:.0%} of the topic's records did not exceed, in the last minutes.",
            _percentile(share),
        )
        for name, share in PERCENTILES.items()
    ),
)

# One function for each figure, since its text is made once for all the series that have it.
LAG, RECORDS, BYTES = (attrgetter(name) for name in ("lag", "records_total", "bytes_total"))
LATENCY_MIN, LATENCY_AVG, LATENCY_MAX = (attrgetter(f"latency_ms_{name}") for name in ("min", "avg", "max"))

PARTITION_SERIES: tuple[Series[PartitionRow], ...] = (
    Series("srm_partition_lag_records", "Source offsets that are not copied yet.", LAG),
    Series(
        "srm_partition_lag_seconds",
        "Age of the oldest record that is not copied; 0 when all are.",
        lambda row: seconds(row.behind_ms),
    ),
    Series(
        "srm_partition_position", "The next source offset to copy; everything before it is.", lambda row: row.position
    ),
    Series("srm_partition_source_end", "The source's last stable offset.", lambda row: row.end),
    Series("srm_partition_copied_records_total", "Records copied by all runs.", RECORDS, kind="counter"),
    Series("srm_partition_copied_bytes_total", "Bytes copied by all runs.", BYTES, kind="counter"),
    Series(
        "srm_partition_skipped_records_total",
        "Records that transforms could not handle and all runs left out.",
        lambda row: row.skipped_records_total,
        kind="counter",
    ),
    Series(
        "srm_partition_dead_letters_total",
        "Those of them that are in the dead letter topic.",
        lambda row: row.dead_letters_total,
        kind="counter",
    ),
    Series("srm_partition_failed", "1 when the last run could not copy it.", lambda row: int(row.error is not None)),
    Series(
        "srm_partition_newest_record_timestamp_seconds",
        "Time of the newest record that was copied.",
        lambda row: seconds(row.newest_record_ms),
    ),
    *(
        Series(
            f"srm_partition_replication_latency_{name}_seconds",
            f"From a record's time to its commit on the target, {text} in the last run; absent if it copied none.",
            value,
        )
        for name, text, value in (
            ("min", "the shortest", lambda row: seconds(row.latency_ms_min)),
            ("avg", "on average", lambda row: seconds(row.latency_ms_avg)),
            ("max", "the longest", lambda row: seconds(row.latency_ms_max)),
        )
    ),
)
