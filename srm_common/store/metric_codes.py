"""Numbers that stand for metrics in the database; never given to another one."""

from __future__ import annotations

from srm_common.domain.metrics.metric import Metric

CODES: dict[Metric, int] = {
    Metric.BYTE_RATE: 1,
    Metric.RECORD_RATE: 2,
    Metric.REPLICATION_LATENCY: 3,
    Metric.CHECKPOINT_LATENCY: 4,
    Metric.RECORDS_LAG: 5,
    Metric.RECORD_AGE: 6,
    Metric.HEARTBEAT_LATENCY: 7,
    Metric.HEARTBEAT_AGE: 8,
    Metric.RUN_DURATION: 9,
    Metric.PASSES: 10,
    Metric.TRANSACTIONS: 11,
    Metric.RETRIES: 12,
    Metric.REENCODED_SHARE: 13,
    Metric.LOST_RECORDS: 14,
    Metric.LOST_DATA_EVENTS: 15,
    Metric.UNTRANSLATED_GROUPS: 16,
    Metric.FAILED_PARTITIONS: 17,
    Metric.REPLICATION_LATENCY_CORRECTED: 18,
    Metric.LAG_AGE: 19,
    Metric.UNKNOWN_LAGS: 20,
}
METRICS = {code: metric for metric, code in CODES.items()}
