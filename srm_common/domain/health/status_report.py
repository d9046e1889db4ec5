"""The status of a flow, partition by partition: its last run, and the source's end offsets where available."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from srm_common.domain.amount import Amount, duration
from srm_common.domain.health.health import Health, HealthState, Help
from srm_common.domain.monitoring.flow_lag import FlowLag, PartitionLag
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.runs.run_record import PartitionRecord, PartitionStanding, RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition

_NOTHING_COPIED = (HealthState.NOT_RUN, HealthState.HEARTBEAT_ONLY)


@dataclass(frozen=True, slots=True)
class PartitionStatus(PartitionStanding):
    """One partition.

    ``position`` and ``end`` are of this moment where ``live``, else as the last run saw them; ``end`` is None where the
    source was asked and could not tell. ``age_seconds`` is how
    old the newest record is that was copied, None when none was; ``behind_seconds`` how old the first one that is not,
    0 when all are and None where the source's log does not tell.
    """

    upstream_topic: str
    downstream_topic: str
    partition: int
    position: int | None
    end: int | None
    live: bool
    age_seconds: float | None
    error: str | None
    behind_seconds: float | None = None


@dataclass(frozen=True)
class StatusReport:
    """One flow. ``run`` is None before its first run; ``source_fault`` says why ends are not live; ``heartbeats`` is
    None if not checked. ``health``: its state, as far as the clusters alone tell; None if not judged."""

    flow: str
    now_ms: int
    run: RunRecord | None
    partitions: tuple[PartitionStatus, ...] = ()
    source_fault: str | None = None
    heartbeats: HeartbeatReport | None = None
    health: Health | None = None

    @property
    def healthy(self) -> bool:
        """False when the last run failed, a partition did, the source cannot be queried, or its heartbeats stay
        away."""
        return (
            (self.run is None or self.run.state is not RunState.FAILED)
            and all(row.error is None for row in self.partitions)
            and self.source_fault is None
            and self.silence is None
        )

    @property
    def silence(self) -> str | None:
        """That heartbeats stay away, in one sentence; before the first run none can have come."""
        return None if self.run is None or self.heartbeats is None else self.heartbeats.silence

    @property
    def lag(self) -> Amount:
        """Of all partitions."""
        return Amount.sum(Amount.of(row.lag) for row in self.partitions)

    @property
    def behind_seconds(self) -> float | None:
        """Age of the oldest record that is not copied, 0 if all are; None if it is unknown."""
        if self.lag.unknown:
            return None
        return max((row.behind_seconds for row in self.partitions if row.behind_seconds is not None), default=None)

    @property
    def advice(self) -> Help | None:
        """What to do about a flow that has copied nothing but heartbeats, or nothing at all yet."""
        health = self.health
        return health.help if health is not None and health.state in _NOTHING_COPIED else None

    def headline(self) -> str:
        """The flow as a whole, in one sentence."""
        run = self.run
        if run is None:
            return f"{self.flow}: it has not run yet"
        if run.finished_ms is None:
            when = f"started {duration(self.now_ms - run.started_ms)} ago"
        else:
            when = f"ended {duration(self.now_ms - run.finished_ms)} ago"
        failed = sum(row.error is not None for row in self.partitions)
        trouble = f"; {failed} of {len(self.partitions)} partitions failed" if failed else ""
        behind = f", {duration(self.behind_seconds * 1000)} behind" if self.behind_seconds else ""
        lag = self.lag.text("partition")
        only = f"; {self.health.cause}" if self.health is not None and self.advice is not None else ""
        return f"{self.flow}: run {run.run_id} is {run.state}, {when}, lag {lag}{behind}{trouble}{only}"

    def to_json(self) -> dict[str, Any]:
        run = self.run
        return {
            "flow": self.flow,
            "healthy": self.healthy,
            "health": None if self.health is None else asdict(self.health),
            "lag": self.lag.most,
            "lag_bounds": self.lag.to_json(),
            "behind_seconds": self.behind_seconds,
            "source_fault": self.source_fault,
            "heartbeats": None if self.heartbeats is None else self.heartbeats.to_json(),
            "run": None
            if run is None
            else {
                "run_id": run.run_id,
                "state": str(run.state),
                "started_ms": run.started_ms,
                "finished_ms": run.finished_ms,
                "passes": run.passes,
                "records": run.records,
                "bytes": run.bytes,
                "dropped_records": sum(partition.dropped_records or 0 for partition in run.partitions),
                "skipped_records": sum(partition.skipped_records or 0 for partition in run.partitions),
                "dead_letters": sum(partition.dead_letters or 0 for partition in run.partitions),
                "error": run.error,
                "notes": list(run.notes),
            },
            "partitions": [
                {
                    "topic": row.upstream_topic,
                    "remote_topic": row.downstream_topic,
                    "partition": row.partition,
                    "position": row.position,
                    "end": row.end,
                    "live": row.live,
                    "lag": row.lag,
                    "behind_seconds": row.behind_seconds,
                    "age_seconds": row.age_seconds,
                    "error": row.error,
                }
                for row in self.partitions
            ],
        }


def make_report(
    flow: str,
    now_ms: int,
    run: RunRecord | None,
    lag: FlowLag | None,
    source_fault: str | None,
    heartbeats: HeartbeatReport | None = None,
) -> StatusReport:
    """``lag``: as far as it is known now; it may have partitions that the run did not know yet."""
    known = {TopicPartition(row.upstream_topic, row.partition): row for row in (run.partitions if run else ())}
    live = {} if lag is None else lag.partitions
    copies = {topic: row.downstream_topic for (topic, _), row in known.items()}
    new = {place: PartitionRecord(place[0], copies.get(place[0], ""), place[1]) for place in live.keys() - known.keys()}
    silent = frozenset[TopicPartition]() if lag is None else lag.unknown
    new |= {place: PartitionRecord(place[0], copies.get(place[0], ""), place[1]) for place in silent - known.keys()}
    rows = [
        _row(replace(row, end=None) if place in silent else row, now_ms, live.get(place))
        for place, row in sorted((known | new).items())
    ]
    return StatusReport(flow, now_ms, run, tuple(rows), source_fault, heartbeats)


def _row(record: PartitionRecord, now_ms: int, live: PartitionLag | None) -> PartitionStatus:
    copied = record.last_record_timestamp_ms
    behind = None
    if live is not None and (live.oldest_ms is not None or not live.records):
        behind = 0.0 if live.oldest_ms is None else max(0.0, (now_ms - live.oldest_ms) / 1000)
    return PartitionStatus(
        record.upstream_topic,
        record.downstream_topic,
        record.partition,
        record.position if live is None else live.position,
        record.end if live is None else live.end,
        live is not None,
        None if copied is None else max(0.0, (now_ms - copied) / 1000),
        record.error,
        behind,
    )
