"""Every metric, with one definition each, for docs/metrics.md, Airflow's metrics, Prometheus and the REST API."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Metric(StrEnum):
    """Names as Streams Replication Manager and MirrorMaker 2 have them, where they have one."""

    BYTE_RATE = "byte-rate"
    RECORD_RATE = "record-rate"
    REPLICATION_LATENCY = "replication-latency-ms"
    CHECKPOINT_LATENCY = "checkpoint-latency-ms"
    RECORDS_LAG = "replication-records-lag"
    UNKNOWN_LAGS = "replication-lag-unknown-partitions"
    LAG_AGE = "replication-lag-ms"
    RECORD_AGE = "record-age-ms"
    HEARTBEAT_LATENCY = "heartbeat-latency-ms"
    HEARTBEAT_AGE = "heartbeat-age-ms"
    RUN_DURATION = "run-duration-ms"
    PASSES = "passes"
    TRANSACTIONS = "transactions"
    RETRIES = "retries"
    REENCODED_SHARE = "reencoded-share"
    LOST_RECORDS = "lost-records"
    LOST_DATA_EVENTS = "lost-data-events"
    DROPPED_RECORDS = "dropped-records"
    SKIPPED_RECORDS = "skipped-records"
    DEAD_LETTERS = "dead-letters"
    UNTRANSLATED_GROUPS = "untranslated-groups"
    FAILED_PARTITIONS = "failed-partitions"
    CERTIFICATE_REMAINING = "certificate-remaining-ms"
    REPLICATION_LATENCY_CORRECTED = "replication-latency-corrected-ms"


# The one definition of each metric; docs/metrics.md is written from it.
#
# Every level gets its samples from a run's report directly (:mod:`srm_common.domain.metrics.samples`), so nothing is
# added up that was averaged before.


class Level(StrEnum):
    PARTITION = "partition"
    TOPIC = "topic"
    FLOW = "flow"


class Across(StrEnum):
    """How figures of several partitions become one sample of their topic or flow."""

    SUM = "sum"  # one figure: they are added up
    POOL = "pool"  # all of them: smallest, largest, and their average, each with the same weight
    RATIO = "ratio"  # one figure: the sums are divided
    ONCE = "once"  # it has no parts


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric.

    ``unit`` is a word or a fraction of words. ``airflow`` is its name among Airflow's metrics, where it is sent at
    ``airflow_level``; figures of :attr:`Across.POOL` end in ``_min``, ``_avg`` and ``_max`` there. ``counter``: the
    value sent is what a run adds.
    """

    metric: Metric
    unit: str
    levels: tuple[Level, ...]
    across: Across
    text: str
    airflow: str
    airflow_level: Level = Level.FLOW
    counter: bool = False


_ALL = (Level.PARTITION, Level.TOPIC, Level.FLOW)
_FLOW = (Level.FLOW,)

DEFINITIONS = (
    Definition(
        Metric.BYTE_RATE,
        "bytes/second",
        _ALL,
        Across.SUM,
        "Bytes copied by a run, as batches are stored in the source's log, divided by the time from the run's start to "
        "its end. MirrorMaker 2 counts only the bytes of values, so it reports less.",
        "srm.byte_rate",
        Level.TOPIC,
    ),
    Definition(
        Metric.RECORD_RATE,
        "records/second",
        _ALL,
        Across.SUM,
        "Records copied by a run, divided by the time from its start to its end.",
        "srm.record_rate",
        Level.TOPIC,
    ),
    Definition(
        Metric.REPLICATION_LATENCY,
        "milliseconds",
        _ALL,
        Across.POOL,
        "From the timestamp of a batch's newest record to the commit of the transaction that carried it. It includes "
        "the time that the record waited for a run, so it is large for a backlog. One sample per run for each "
        "partition with copied records: the average over its batches, with their minimum and maximum; percentiles over "
        "its records.",
        "srm.latency_ms",
        Level.PARTITION,
    ),
    Definition(
        Metric.REPLICATION_LATENCY_CORRECTED,
        "milliseconds",
        _ALL,
        Across.POOL,
        "The same, corrected by how far the source's clock is ahead of that of the host that copied; no sample if that "
        "could not be measured.",
        "srm.latency_corrected_ms",
    ),
    Definition(
        Metric.CHECKPOINT_LATENCY,
        "milliseconds",
        (Level.TOPIC, Level.FLOW),
        Across.POOL,
        "From fetching a group's offsets at the source to the acknowledged checkpoints. One sample for each group that "
        "got a checkpoint in the last round; each group has its own value, whereas MirrorMaker 2 reports the same for "
        "all groups of a task.",
        "srm.checkpoint_latency_ms",
    ),
    Definition(
        Metric.RECORDS_LAG,
        "records",
        _ALL,
        Across.SUM,
        "The source's end offset (the last stable offset if only committed records are read) minus the position up to "
        "which everything is committed on the target. It counts offsets, including compacted records and transaction "
        "markers. Both clusters are queried when a run is reported, and between reports while the figures are in use. "
        "No sample for a topic or flow with a partition of unknown lag: a partial sum is not the sum.",
        "srm.records_lag",
        Level.PARTITION,
    ),
    Definition(
        Metric.UNKNOWN_LAGS,
        "partitions",
        _ALL,
        Across.SUM,
        "Partitions whose lag is unknown: without a leader, without a response, or not visible to the flow.",
        "srm.lag_unknown_partitions",
        Level.TOPIC,
    ),
    Definition(
        Metric.LAG_AGE,
        "milliseconds",
        _ALL,
        Across.POOL,
        "Age of the oldest record that is not copied yet, by its timestamp, when a run is reported and between reports "
        "while the figures are in use; 0 if everything is copied. Looked up in the source's log by timestamp: exact "
        "after a run, within 2 % during one. One sample per partition; the maximum is how far the flow is behind. No "
        "sample for a topic or flow with a partition of unknown lag.",
        "srm.lag_ms",
        Level.TOPIC,
    ),
    Definition(
        Metric.RECORD_AGE,
        "milliseconds",
        _ALL,
        Across.POOL,
        "Age of the newest copied record when the run was reported. One sample per run for each partition with copied "
        "or waiting records; a partition without new records has no age.",
        "srm.record_age_ms",
        Level.TOPIC,
    ),
    Definition(
        Metric.HEARTBEAT_LATENCY,
        "milliseconds",
        _FLOW,
        Across.ONCE,
        "From the writing of the source's newest heartbeat to its arrival on the target, end to end. The hops of a "
        "chain are available in the REST API.",
        "srm.heartbeat_latency_ms",
    ),
    Definition(
        Metric.HEARTBEAT_AGE,
        "milliseconds",
        _FLOW,
        Across.ONCE,
        "Age of the source's newest heartbeat on the target when the run was reported: everything that was written at "
        "the source before it has arrived.",
        "srm.heartbeat_age_ms",
    ),
    Definition(
        Metric.RUN_DURATION,
        "milliseconds",
        _FLOW,
        Across.ONCE,
        "From the start of a run's copying to its end.",
        "srm.run_duration_ms",
    ),
    Definition(
        Metric.PASSES,
        "passes",
        _FLOW,
        Across.ONCE,
        "Passes over the source in a run.",
        "srm.passes",
    ),
    Definition(
        Metric.TRANSACTIONS,
        "transactions",
        _FLOW,
        Across.ONCE,
        "Transactions committed by a run; chunks where exactly-once is off. One carries many partitions.",
        "srm.transactions",
        counter=True,
    ),
    Definition(
        Metric.RETRIES,
        "retries",
        _FLOW,
        Across.ONCE,
        "Chunks that a run repeated after a fault, and fencings of its slots.",
        "srm.run_retries",
        counter=True,
    ),
    Definition(
        Metric.REENCODED_SHARE,
        "share",
        _ALL,
        Across.RATIO,
        "Re-encoded records divided by all records copied by the run, from 0 to 1; all others are copied as unopened "
        "batches. No sample if nothing was copied.",
        "srm.reencoded_share",
    ),
    Definition(
        Metric.LOST_RECORDS,
        "records",
        _ALL,
        Across.SUM,
        "Records that disappeared at the source before they were copied, found by the run.",
        "srm.lost_records",
        Level.PARTITION,
        counter=True,
    ),
    Definition(
        Metric.LOST_DATA_EVENTS,
        "events",
        _ALL,
        Across.SUM,
        "Partitions on which a run found lost records.",
        "srm.lost_data_events",
        counter=True,
    ),
    Definition(
        Metric.DROPPED_RECORDS,
        "records",
        _ALL,
        Across.SUM,
        "Records of a run that a transform dropped, as it was told to. Samples only of flows with transforms.",
        "srm.dropped_records",
        Level.PARTITION,
        counter=True,
    ),
    Definition(
        Metric.SKIPPED_RECORDS,
        "records",
        _ALL,
        Across.SUM,
        "Records of a run that a transform could not handle and `errors.tolerance = all` left out of the copy. Samples "
        "only of flows with transforms.",
        "srm.skipped_records",
        Level.PARTITION,
        counter=True,
    ),
    Definition(
        Metric.DEAD_LETTERS,
        "records",
        _ALL,
        Across.SUM,
        "Those of them that are in the dead letter topic.",
        "srm.dead_letters",
        Level.PARTITION,
        counter=True,
    ),
    Definition(
        Metric.UNTRANSLATED_GROUPS,
        "groups",
        _FLOW,
        Across.ONCE,
        "Consumer groups with a committed offset that cannot be translated to the target yet.",
        "srm.untranslated_groups",
    ),
    Definition(
        Metric.FAILED_PARTITIONS,
        "partitions",
        _ALL,
        Across.SUM,
        "Partitions that ended the run with an error.",
        "srm.failed_partitions",
    ),
    Definition(
        Metric.CERTIFICATE_REMAINING,
        "milliseconds",
        _FLOW,
        Across.ONCE,
        "Time until the first certificate expires on which connections to either cluster depend: those of the brokers, "
        "of their authorities, and the flow's own. Negative when it has expired. No sample without TLS, or if no "
        "broker could be connected.",
        "srm.certificate_remaining_ms",
    ),
)


@dataclass(frozen=True, slots=True)
class TotalDefinition:
    """The sum over all runs: a total that only grows. It has no samples, so it is not part of the history.

    ``field`` is its name in the REST API, ``series`` the end of its Prometheus name (``srm_flow_...``),
    ``mirror_maker`` the one under MirrorMaker 2's name, None where it has none, ``airflow`` the counter of Airflow's
    that a run adds to.
    """

    name: str
    unit: str
    levels: tuple[Level, ...]
    text: str
    field: str
    series: str
    mirror_maker: str | None
    airflow: str


TOTALS = (
    TotalDefinition(
        "record-count",
        "records",
        _ALL,
        "Records copied by all runs.",
        "records_total",
        "copied_records_total",
        "kafka_connect_mirror_mirrorsourceconnector_record_count",
        "srm.records",
    ),
    TotalDefinition(
        "byte-count",
        "bytes",
        _ALL,
        "Bytes copied by all runs, as batches are stored in the source's log. MirrorMaker 2 counts only the bytes of "
        "values, so it reports less.",
        "bytes_total",
        "copied_bytes_total",
        "kafka_connect_mirror_mirrorsourceconnector_byte_count",
        "srm.bytes",
    ),
    TotalDefinition(
        "skipped-record-count",
        "records",
        _ALL,
        "Records that a transform could not handle and all runs left out. Counted from 0 in flows with transforms and "
        "`errors.tolerance = all`.",
        "skipped_records_total",
        "skipped_records_total",
        None,
        "srm.skipped_records",
    ),
    TotalDefinition(
        "dead-letter-count",
        "records",
        _ALL,
        "Those of them that are in the dead letter topic.",
        "dead_letters_total",
        "dead_letters_total",
        None,
        "srm.dead_letters",
    ),
)

BY_METRIC = {definition.metric: definition for definition in DEFINITIONS}
