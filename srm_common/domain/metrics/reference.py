"""docs/metrics.md, generated from the table of metrics.

``python -m srm_common.domain.metrics.reference > docs/metrics.md`` updates it; a test compares.
"""

from __future__ import annotations

from srm_common.domain.metrics.metric import (
    DEFINITIONS,
    TOTALS,
    Across,
    Definition,
    TotalDefinition,
)
from srm_common.domain.metrics.mirror_maker import MIRROR_MAKER_METRICS

_INTRODUCTION = """\
# Metrics

Each run of a flow ends with a report (task `report_lag`; `srm-control run` does the same). Its figures go to the
metrics store ([metrics-store.md](metrics-store.md)), from there to the Replications page, the REST API and Prometheus
([monitoring.md](monitoring.md)), to Airflow's own metrics, and, if enabled, to a topic. All of them have the metrics of
this table.

<!-- Generated from the table of metrics by `python -m srm_common.domain.metrics.reference`; do not edit. -->

| metric | unit | levels | over partitions | definition |
| --- | --- | --- | --- | --- |
"""

_ACROSS = {Across.SUM: "sum", Across.POOL: "pooled", Across.RATIO: "ratio of sums", Across.ONCE: "-"}

_TOTALS = """
Names are those of Streams Replication Manager and MirrorMaker 2 where they have one.

## Totals

| total | unit | levels | REST API | Prometheus | Airflow's metric of a run | definition |
| --- | --- | --- | --- | --- | --- | --- |
"""

_AGGREGATION = """
The totals of a flow are kept in its run record on the target, per partition, from run to run. So they include what was
copied or skipped by runs without a report or with a failed first attempt, a run that is reported again does not count
twice, and they are restored after the metrics store was deleted. Only the last pass of a killed driver is missing. They
never shrink and are kept when history is rolled up and deleted; a topic that is excluded for a while continues from its
last value. The total of a flow includes topics that it no longer copies.

## How figures are put together

A report has one sample of each metric for each partition, topic and flow. Topics and flows are computed from the
partitions of that report, by the column *over partitions*:

- *sum*: the sum over the partitions. The lag of a flow is its whole backlog, its byte rate everything that it copies
  per second, since the partitions of a run are copied concurrently.
- *pooled*: the values of all partitions with equal weight; minimum and maximum are those of any batch.
- *ratio of sums*: the sum of the numerators divided by the sum of the denominators, so that a partition with few
  records has little weight.

Over a range of time there are `min`, `max`, `avg`, `sum` and `count` of the samples in it, and the `latest` one with
its time. `avg` is `sum / count`. Windows are sliding: the last hour is the hour before the request. The `sum` of a rate
or of a lag over time has no meaning by itself; the "sum" over partitions of Streams Replication Manager is `avg` of the
flow or topic here, and `sum` in version 1 of the API.

Replication latency also has percentiles: `p50`, `p95` and `p99` are the latencies that 50, 95 and 99 % of the records
do not exceed. Runs count the records of each partition in latency buckets (with bounds of 8, 10, 12, 14, 16, 20, 24 ms
and so on); all records of a batch count with its newest one. Percentiles of topics, flows and ranges of time are
computed from the sums of these counts, never from other percentiles, and have an error of at most an eighth (half a
millisecond below 8 ms). They are unknown for runs without counts, which are those of earlier versions.

A partition that a run did not process (`srm-control run --topics`) keeps its lag and adds nothing else. A run that left
no record, for example because a cluster is down, has no rates; its lag is measured against the source's end offsets at
that time, so that the growing backlog of a flow that cannot copy is visible. There are no reports while a flow is
paused: all its figures but lag become stale, and each has its time.

## Lag between runs

The report queries both clusters at its end, so it includes what arrived while the run copied. Between reports the page,
the REST API, `/metrics`, `srm-control top` and `srm-control status` show the current lag:

- While the page or API is in use or scraped, and for 150 s after, each serving process (a worker of Airflow's API
  server, `srm-control serve`, `top`) queries each cluster in the background, at most every 15 s: the source for its end
  offsets, one request per broker for all flows (two if only some flows read committed records), the target for what was
  committed since. The connections use the flow's own settings. When nothing is in use, nothing is queried.
- No request waits. It gets the latest value, with its time (`lag_ms`); the first one gets the report's. If a cluster
  does not respond, the last value remains, with its age, and `lag_fault` says why. `status` waits for the response.
- The lag of a partition without a leader, without a response, or not visible to the flow is unknown, and so is every
  sum that includes it: `lag` and `behind_ms` are null, and `lag_bounds` has the known part: "at least 8, unknown in 1
  of 3 partitions". There is no sample then, so graphs have a gap; `replication-lag-unknown-partitions` counts the
  partitions.
- `behind_ms` is the age of the oldest record that is not copied, by its timestamp, which is looked up in the source's
  log; no record is fetched. If producers set timestamps out of order it is that of a nearby record.
- A partition that was added is counted from its start; a topic that no longer exists at the source is left out; a topic
  that is new at the source counts from the run that finds it.
- States and alarms are judged by reports, and so are notifications: between two runs of a schedule lag always grows.

Lag counts offsets. Transaction markers and compacted records have offsets, too, so the lag of such a topic is larger
than the number of records still to be copied; it is 0 when all are copied.

## Clocks

Latencies compare two clocks: the timestamp of a record is set by its producer (or by the broker, with
`message.timestamp.type=LogAppendTime`), that of the commit by the host that copied. `replication-latency-ms` is the
measured value, and may be negative; `replication-latency-corrected-ms` removes the difference of the clocks: measured
latency plus how far the source's clock is ahead. Remaining negative values are due to producers with a wrong clock.

The source's clock is that of its active controller, which returns its time whenever the quorum is described (Kafka 3.3
and later with KRaft; needs Describe on the cluster). Each report queries it; the error is half of the round-trip time,
less than a millisecond within a data centre. Both clusters' clocks and the error are part of each report. If it cannot
be measured there is no corrected latency. Heartbeats are written and received by hosts that run flows, not by the
source's brokers, so their latency is not corrected.

## MirrorMaker 2's metrics

Prometheus also gets these, under the names that MirrorMaker 2's metrics have with the JMX exporter
([monitoring.md](monitoring.md#series)): those of the source connector per partition, those of the checkpoint connector
per group.

| metric | here |
| --- | --- |
"""

_AIRFLOW_TABLE = """
## Airflow's metrics

| name | kind | tags | metric |
| --- | --- | --- | --- |
"""

_PERCENTILES = "| `srm.latency_ms_p50`, `_p95`, `_p99` | gauge | flow | `replication-latency-ms` |\n"

_AIRFLOW = """\
| `srm.flow_ok` | gauge | flow | 1 if the run succeeded, otherwise 0 |
| `srm.records`, `srm.bytes`, `srm.reencoded_records`, `srm.retries`, `srm.errors` | counter \
| flow, topic, partition | of this run |

`flow` is `source/target`. Heartbeat metrics also have the tags `cluster` (where the heartbeat was written) and `hops`.
Airflow's plain StatsD drops tags, so that topics overwrite each other: use `statsd_influxdb_enabled`,
`statsd_datadog_enabled` or OpenTelemetry ([install.md](install.md#5-metrics)).

## Raw metrics

With `metrics.topic.enabled = true` each report is written to `srm-metrics.<source>.internal` on the target: one
partition, in chronological order, kept for `metrics.topic.retention.ms`. The key is the flow. A value is JSON of less
than 1 MB:

```json
{"version": 1, "flow": "east->west", "run_id": "scheduled__...", "reported_ms": 1790000000000, "part": 0, "parts": 2,
 "report": {"run": {"started_ms": 0, "columns": ["upstream_topic", "..."], "...": 0}, "clock": {}, "...": 0},
 "partitions": [["orders", "east.orders", 0, 1200]], "groups": [], "decisions": []}
```

`report` is in the first part only; rows are distributed over the parts of a report, and later parts have `columns`. A
plan or list of filters that would fill a part by itself is left out. Fields may be added; `version` changes when one is
removed. `srm-control serve` reads these topics into its own store, so it needs no access to Airflow's.

If a report cannot be written there, `report_lag` logs it; the run is not affected.
"""


def metrics_reference() -> str:
    """The page."""
    rows = "".join(_row(definition) for definition in DEFINITIONS)
    airflow = "".join(_airflow_row(definition) for definition in DEFINITIONS)
    totals = "".join(_total_row(total) for total in TOTALS)
    mirror_maker = "".join(f"| `{metric.attribute}` | {metric.text} |\n" for metric in MIRROR_MAKER_METRICS)
    return (
        f"{_INTRODUCTION}{rows}{_TOTALS}{totals}{_AGGREGATION}{mirror_maker}{_AIRFLOW_TABLE}{airflow}"
        f"{_PERCENTILES}{_AIRFLOW}"
    )


def _row(one: Definition) -> str:
    levels = ", ".join(one.levels)
    return f"| `{one.metric}` | {one.unit} | {levels} | {_ACROSS[one.across]} | {one.text} |\n"


def _total_row(one: TotalDefinition) -> str:
    series = f"`srm_flow_{one.series}`, `srm_topic_...`, `srm_partition_...`"
    if one.mirror_maker is not None:
        series += f"; `{one.mirror_maker}`"
    levels = ", ".join(one.levels)
    return f"| `{one.name}` | {one.unit} | {levels} | `{one.field}` | {series} | `{one.airflow}` | {one.text} |\n"


def _airflow_row(one: Definition) -> str:
    name = f"`{one.airflow}_min`, `_avg`, `_max`" if one.across is Across.POOL else f"`{one.airflow}`"
    tags = {"flow": "flow", "topic": "flow, topic", "partition": "flow, topic, partition"}[one.airflow_level]
    return f"| {name} | {'counter' if one.counter else 'gauge'} | {tags} | `{one.metric}` |\n"


if __name__ == "__main__":
    print(metrics_reference(), end="")
