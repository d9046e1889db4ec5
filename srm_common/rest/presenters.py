"""From rows of the store and the scheduler to the JSON of the API."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from srm_common.domain.amount import Amount
from srm_common.domain.health.health import Alarm, Health, Help
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.rest import schemas, topic_schemas
from srm_common.store.rows import GroupRow, PartitionRow, RunRow, TopicRow

#: Reports come later than scheduled, since runs take time.
_LATE = 1.5


def stat(found: Stats) -> schemas.Stat:
    return schemas.Stat.model_validate(found, from_attributes=True)


def stats(found: Mapping[Metric, Stats]) -> dict[str, schemas.Stat]:
    return {metric.value: stat(one) for metric, one in found.items()}


def point(found: Stats) -> schemas.Point:
    return schemas.Point(start_ms=found.span.start_ms, end_ms=found.span.end_ms, **stat(found).model_dump())


def sparkline(
    found: Sequence[Stats], span: TimeRange, points: int, interval_seconds: float | None
) -> schemas.Sparkline:
    """At most ``points`` buckets of equal length over ``span``, each long enough for a report, which is due every
    ``interval_seconds``; otherwise every other bucket would be empty. A bucket of the store counts where its middle is.
    """
    step = max(1, -(-span.milliseconds // points), int((interval_seconds or 0) * _LATE * 1000))
    count = max(1, -(-span.milliseconds // step))
    sums, counts = [0.0] * count, [0] * count
    for one in found:
        place = (one.span.midpoint_ms - span.start_ms) // step
        if one.sum is not None and 0 <= place < count:
            sums[place] += one.sum
            counts[place] += one.count
    values = [total / number if number else None for total, number in zip(sums, counts, strict=True)]
    return schemas.Sparkline(start_ms=span.start_ms, step_ms=step, values=values)


def helping(help: Help | None) -> schemas.Helping | None:
    if help is None:
        return None
    action = None if help.action is None else help.action.value
    return schemas.Helping(text=help.text, command=help.command, action=action, anchor=help.anchor)


def health(found: Health) -> schemas.HealthModel:
    return schemas.HealthModel(
        state=found.state.value,
        cause=found.cause,
        since_ms=found.since_ms,
        error_kind=found.error_kind,
        help=helping(found.help),
    )


def alarms(found: Iterable[Alarm]) -> list[schemas.AlarmModel]:
    return [
        schemas.AlarmModel(
            kind=alarm.kind.value,
            severity=alarm.severity.value,
            flow=alarm.flow,
            text=alarm.text,
            since_ms=alarm.since_ms,
            help=helping(alarm.help),
        )
        for alarm in found
    ]


def lag(found: Amount | None) -> dict[str, Any]:
    """``lag`` only where it is known of every partition."""
    if found is None:
        return {"lag": None, "lag_bounds": None}
    return {"lag": found.most, "lag_bounds": schemas.Bounds(**found.to_json(), text=found.text("partition"))}


def run(row: RunRow, url: str | None = None) -> schemas.Run:
    return schemas.Run(**{**asdict(row), **lag(row.lag)}, state="done" if row.ok else "failed", url=url)


def topic(row: TopicRow) -> topic_schemas.Topic:
    return topic_schemas.Topic(
        topic=row.topic,
        remote_topic=row.remote_topic,
        partitions=row.partitions,
        failed_partitions=row.failed_partitions,
        **lag(row.lag),
        lag_ms=row.lag_ms or row.reported_ms,
        behind_ms=row.behind_ms,
        newest_record_ms=row.newest_record_ms,
        error=row.error,
        metrics=stats(row.stats),
        records_total=row.records_total,
        bytes_total=row.bytes_total,
        skipped_records_total=row.skipped_records_total,
        dead_letters_total=row.dead_letters_total,
        reported_ms=row.reported_ms,
    )


def partition(
    row: PartitionRow, verified: topic_schemas.PartitionVerification | None = None
) -> topic_schemas.Partition:
    shown = topic_schemas.Partition.model_validate(row, from_attributes=True)
    percentiles = {f"latency_ms_{name}": value for name, value in row.latency_percentiles.items()}
    lag_ms = row.reported_ms if row.lag_ms is None else row.lag_ms
    return shown.model_copy(update={**percentiles, "lag_ms": lag_ms, "verified": verified})


def verified(
    table: Mapping[str, Any], wanted: Collection[TopicPartition]
) -> dict[TopicPartition, topic_schemas.PartitionVerification]:
    """Of ``results_table()``, the rows of the partitions that are ``wanted``."""
    out = {}
    for row in table.get("rows", ()):
        one = dict(zip(table["columns"], row, strict=True))
        place = TopicPartition(one["topic"], one["partition"])
        if place not in wanted:
            continue
        first = one["difference"]
        out[place] = topic_schemas.PartitionVerification(
            verdict=one["verdict"],
            checked_ms=one["checked_ms"],
            against=one["against"],
            sample=one["sample"],
            whole=one["whole"],
            proved_from=_offset(one["proved_from"]),
            proved_to=_offset(one["proved_to"]),
            records=one["proved"],
            fault=one["fault"],
            difference=None if first is None else _difference(first),
        )
    return out


def _difference(found: Mapping[str, Any]) -> topic_schemas.Difference:
    offsets = ("downstream_first", "downstream_last", "upstream_first", "upstream_last")
    return topic_schemas.Difference(
        kind=found["kind"], sentence=found["sentence"], **{name: _offset(found[name]) for name in offsets}
    )


def _offset(found: int) -> int | None:
    return None if found < 0 else found


def group(row: GroupRow) -> schemas.Group:
    return schemas.Group(**asdict(row.sample), reported_ms=row.reported_ms)


def heartbeats(document: Mapping[str, Any], aged_ms: int) -> schemas.Heartbeats:
    """Of ``HeartbeatReport.to_json()``; ``aged_ms`` is how long ago that was made.

    Heartbeats have the time of the host that writes them, and of the one that copies: never a broker's. Those that the
    flow itself wrote need no correction; the clock of other writers is unknown.
    """
    newest = next((one for one in document.get("heartbeats", ()) if one.get("hops") == 1), None) or {}
    latency = newest.get("latency_ms")
    age = document.get("age_ms")
    return schemas.Heartbeats(
        age_ms=None if age is None else max(0, age + max(0, aged_ms)),
        latency_ms=latency,
        corrected_latency_ms=latency if newest.get("written_by") == document.get("flow") else None,
        silent=bool(document.get("silent")),
        sentence=document.get("sentence"),
        hops=[dict(hop) for hop in newest.get("by_hop", ())],
    )
