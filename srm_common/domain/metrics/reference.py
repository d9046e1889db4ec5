"""docs/metrics.md, written from the table of metrics.

``python -m srm_common.domain.metrics.reference > docs/metrics.md`` brings it up to date; a test compares.
"""

from __future__ import annotations

from srm_common.domain.metrics.metric_table import (
    DEFINITIONS,
    MIRROR_MAKER_METRICS,
    TOTALS,
    Across,
    Definition,
    TotalDefinition,
)

_INTRODUCTION = """\
# Metrics

Each run of a flow ends with a report (task `report_lag`; `srm-control run` does the same). What it says goes to the
metrics store ([metrics-store.md](metrics-store.md)), from there to the Replications page, the REST API and Prometheus
([monitoring.md](monitoring.md)), to Airflow's own metrics, and, where it is switched on, to a topic. All have the
figures of this one table.

<!-- Written from the table of metrics by `python -m srm_common.domain.metrics.reference`; do not edit. -->

| metric | unit | levels | over partitions | definition |
| --- | --- | --- | --- | --- |
"""

_ACROSS = {Across.SUM: "sum", Across.POOL: "pooled", Across.RATIO: "ratio of sums", Across.ONCE: "-"}

_TOTALS = """
Names are those of Streams Replication Manager and MirrorMaker 2 where they have one.

## Totals

| total | unit | levels | REST API | Prometheus | adds to it among Airflow's metrics | definition |
| --- | --- | --- | --- | --- | --- | --- |
"""

_AGGREGATION = """
A flow counts in its run record on the target, partition by partition, from run to run. So the totals hold what a run
copied whose report never came or whose first attempt failed, nothing counts twice of a run that is reported again, and
they come back after the metrics store was deleted. Only what the last pass of a killed driver had copied is missing.
They never shrink and are kept when history is rolled up and forgotten; a topic that is left out for a while goes on
where it was. The total of a flow includes topics that it does not copy any more.

## How figures are put together

A report gives one sample of each metric for each partition, topic and flow. Topics and flows are computed from the
partitions of that report, by the column *over partitions*:

- *sum*: the partitions are added up. The lag of a flow is its whole backlog, its byte rate all that it copies in a
  second, since the partitions of a run are copied at the same time.
- *pooled*: the figures of the partitions side by side, each with the same weight; the smallest and largest are those
  of any batch.
- *ratio of sums*: the sums of both sides are divided, so that a partition with few records counts for little.

Over a range of time there are `min`, `max`, `avg`, `sum` and `count` of the samples in it, and the `latest` one with
its time. `avg` is `sum / count`. A window slides with the time asked for: the last hour is the hour before the
question. The `sum` of a rate or of a lag over time means nothing by itself; what is
the "sum" over partitions for Streams Replication Manager is `avg` of the flow or topic here, and `sum` in version 1 of
the API.

Replication latency has percentiles, too: `p50`, `p95` and `p99` are what 50, 95 and 99 of 100 records did not exceed.
Runs count the records of each partition in buckets of latencies (from 8, 10, 12, 14, 16, 20, 24 ms on, and so forth);
all records of a batch go by its newest one. Percentiles of topics, flows and ranges of time are made of these counts
added up, never of other percentiles, and are at most an eighth off (half a millisecond below 8 ms). They are unknown
where no run has told its counts: runs of earlier versions do not.

A partition that a run did not look at (`srm-control run --topics`) keeps its lag and adds nothing else. A run that
left no record, as when a cluster is away, has no rates; its lag is that of the source's ends at that time, so the
backlog of a flow that cannot copy is seen to grow. Nothing reports while a flow is paused: its figures but lag get old,
and each has its time with it.

## Lag between runs

The report asks both clusters at its end, so what came in while the run copied counts. Between reports the page, the
REST API, `/metrics`, `srm-control top` and `srm-control status` tell the lag of now:

- While somebody looks or scrapes, and for 150 s after, each process that is asked (a worker of Airflow's API server,
  `srm-control serve`, `top`) asks each cluster in the background, every 15 s at most: the source for its ends, one
  request a broker for all flows (two where some read committed records only and others do not), the target for what
  was committed since. They are opened with the flow's own connection settings. Nobody looking: nobody is asked.
- No request waits. It gets what was found last, with its time (`lag_ms`); the first look has the report's. A cluster
  that does not answer leaves the last figure, with its age, and `lag_fault` says why. `status` waits for the answer.
- A partition without a leader, without an answer, or that may not be seen has a lag that nobody knows, and so has
  every sum that it is part of: `lag` and `behind_ms` are null, and `lag_bounds` has what is known: "at least 8, unknown
  in 1 of 3 partitions". There is no sample then, so lines have a gap; `replication-lag-unknown-partitions` counts the
  partitions.
- `behind_ms` is how old the first record is that is not copied, by its timestamp, which the source's log is searched
  for; no record is fetched. Where producers set timestamps out of order it is that of a record nearby.
- A partition that was added is counted from its start; a topic that the source does not have any more is left out; a
  topic that is new at the source counts from the run on that finds it.
- States and alarms are judged by reports, as notifiers are: between two runs of a schedule lag always grows.

Lag counts offsets. Transaction markers and records that compaction removed have offsets, too, so the lag of such a
topic is larger than the number of records that are to come; it is 0 when all are copied.

## Clocks

Latencies compare two clocks: a record's timestamp is by the clock of its producer (or of the broker, with
`message.timestamp.type=LogAppendTime`), the commit by the clock of the host that copied. `replication-latency-ms` is
what is measured, and may be negative; `replication-latency-corrected-ms` has the difference of the clocks taken out:
raw latency plus how far the source's clock is ahead. Negative values that remain are producers whose clock is off.

The source's clock is that of its active controller, which tells its time whenever the quorum is described (Kafka 3.3
and later with KRaft; needs Describe on the cluster). It is asked by each report; half of the time until the answer is
the error, below a millisecond in one data centre. Both clusters' clocks and the error are part of each report. Where
it cannot be told there is no corrected latency. Heartbeats are written and received by hosts that run flows, not by
the source's brokers, so their latency is not corrected.

## MirrorMaker 2's metrics

Prometheus is told these, too, under the names that MirrorMaker 2's have with the JMX exporter
([monitoring.md](monitoring.md#series)): those of the source connector for each partition, those of the checkpoint
connector for each group.

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
| `srm.flow_ok` | gauge | flow | 1 when the run did all it had to, else 0 |
| `srm.records`, `srm.bytes`, `srm.reencoded_records`, `srm.retries`, `srm.errors` | counter \
| flow, topic, partition | what the run adds |

`flow` is `source/target`. Heartbeats come with `cluster` (where one was written) and `hops`. Airflow's plain StatsD
drops tags, so that topics overwrite each other: use `statsd_influxdb_enabled`, `statsd_datadog_enabled` or
OpenTelemetry ([install.md](install.md#5-metrics)).

## Raw metrics

With `metrics.topic.enabled = true` each report is written to `srm-metrics.<source>.internal` on the target: one
partition, in the order of time, kept for `metrics.topic.retention.ms`. The key is the flow. A value is JSON below 1
MB:

```json
{"version": 1, "flow": "east->west", "run_id": "scheduled__...", "reported_ms": 1790000000000, "part": 0, "parts": 2,
 "report": {"run": {"started_ms": 0, "columns": ["upstream_topic", "..."], "...": 0}, "clock": {}, "...": 0},
 "partitions": [["orders", "east.orders", 0, 1200]], "groups": [], "decisions": []}
```

`report` is in the first part only; rows are spread over the parts of a report, and later parts have `columns`. A plan
or list of filters that would fill a part by itself is left out. Fields may be added; `version` changes when one is
removed. `srm-control serve` reads these topics into its own store, so it needs no access to Airflow's.

What cannot be written there is logged by `report_lag`; the run is none the worse for it.
"""


def metrics_reference() -> str:
    """The page."""
    rows = "".join(_row(one) for one in DEFINITIONS)
    airflow = "".join(_airflow_row(one) for one in DEFINITIONS)
    totals = "".join(_total_row(one) for one in TOTALS)
    mirror_maker = "".join(f"| `{one.attribute}` | {one.text} |\n" for one in MIRROR_MAKER_METRICS)
    return (
        f"{_INTRODUCTION}{rows}{_TOTALS}{totals}{_AGGREGATION}{mirror_maker}{_AIRFLOW_TABLE}{airflow}"
        f"{_PERCENTILES}{_AIRFLOW}"
    )


def _row(one: Definition) -> str:
    levels = ", ".join(one.levels)
    return f"| `{one.metric}` | {one.unit} | {levels} | {_ACROSS[one.across]} | {one.text} |\n"


def _total_row(one: TotalDefinition) -> str:
    series = f"`srm_flow_{one.series}`, `srm_topic_...`, `srm_partition_...`; `{one.mirror_maker}`"
    levels = ", ".join(one.levels)
    return f"| `{one.name}` | {one.unit} | {levels} | `{one.field}` | {series} | `{one.airflow}` | {one.text} |\n"


def _airflow_row(one: Definition) -> str:
    name = f"`{one.airflow}_min`, `_avg`, `_max`" if one.across is Across.POOL else f"`{one.airflow}`"
    tags = {"flow": "flow", "topic": "flow, topic", "partition": "flow, topic, partition"}[one.airflow_level]
    return f"| {name} | {'counter' if one.counter else 'gauge'} | {tags} | `{one.metric}` |\n"


if __name__ == "__main__":
    print(metrics_reference(), end="")
