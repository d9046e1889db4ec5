"""Every metric, with one definition each, for docs/metrics.md, Airflow's metrics, Prometheus and the REST API."""

from __future__ import annotations

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
    UNTRANSLATED_GROUPS = "untranslated-groups"
    FAILED_PARTITIONS = "failed-partitions"
    REPLICATION_LATENCY_CORRECTED = "replication-latency-corrected-ms"
