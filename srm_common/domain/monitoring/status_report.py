"""How a flow stands, partition by partition: its last run, and the source's ends where they could be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srm_common.domain.duration import duration
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState, named_error

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition.

    ``end`` is the source's end now where ``live``, else as the last run saw it. ``age_seconds`` is how old the
    newest record was that the last run copied, None when it copied none.
    """

    upstream_topic: str
    downstream_topic: str
    partition: int
    position: int | None
    end: int | None
    live: bool
    age_seconds: float | None
    error: str | None

    @property
    def lag(self) -> int | None:
        """Offsets that are not copied yet; None while position or end is unknown."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)

    @property
    def trouble(self) -> str:
        """``error`` with the partition in front; empty without one."""
        return named_error(self.upstream_topic, self.partition, self.error)


@dataclass(frozen=True)
class StatusReport:
    """One flow. ``run`` is None before its first run; ``source_fault`` says why ends are not live; ``heartbeats`` is
    None where nobody looked."""

    flow: str
    now_ms: int
    run: RunRecord | None
    partitions: tuple[PartitionStatus, ...] = ()
    source_fault: str | None = None
    heartbeats: HeartbeatReport | None = None

    @property
    def healthy(self) -> bool:
        """False when the last run failed, a partition did, the source cannot be asked, or its heartbeats stay away."""
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
    def lag(self) -> int:
        """Sum over the partitions whose lag is known."""
        return sum(row.lag or 0 for row in self.partitions)

    def headline(self) -> str:
        """The flow as a whole, in one sentence."""
        run = self.run
        if run is None:
            return f"{self.flow}: no run yet"
        if run.finished_ms is None:
            when = f"started {duration(self.now_ms - run.started_ms)} ago"
        else:
            when = f"ended {duration(self.now_ms - run.finished_ms)} ago"
        failed = sum(row.error is not None for row in self.partitions)
        trouble = f", {failed} of {len(self.partitions)} partitions failed" if failed else ""
        return f"{self.flow}: run {run.run_id} is {run.state}, {when}, lag {self.lag}{trouble}"

    def to_json(self) -> dict[str, Any]:
        run = self.run
        return {
            "flow": self.flow,
            "healthy": self.healthy,
            "lag": self.lag,
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
    ends: Mapping[Partition, int],
    source_fault: str | None,
    heartbeats: HeartbeatReport | None = None,
) -> StatusReport:
    """``ends``: the source's ends as far as they are known now."""
    rows = sorted(run.partitions if run else (), key=lambda row: (row.upstream_topic, row.partition))
    return StatusReport(flow, now_ms, run, tuple(_row(row, now_ms, ends) for row in rows), source_fault, heartbeats)


def _row(record: PartitionRecord, now_ms: int, ends: Mapping[Partition, int]) -> PartitionStatus:
    end = ends.get((record.upstream_topic, record.partition))
    copied = record.last_record_timestamp_ms
    return PartitionStatus(
        record.upstream_topic,
        record.downstream_topic,
        record.partition,
        record.position,
        record.end if end is None else end,
        end is not None,
        None if copied is None else max(0.0, (now_ms - copied) / 1000),
        record.error,
    )
