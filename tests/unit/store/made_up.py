"""Small reports with figures that can be reckoned in the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState

FLOW = "east->west"
#: A day's beginning, so that buckets of all lengths begin there; in the past.
MIDNIGHT = 1_699_920_000_000
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def partition(topic: str = "orders", number: int = 0, *, lag: int | None = 0, **more: Any) -> PartitionRecord:
    """At offset 1000; 100 records of 10 bytes copied, unless ``more`` says otherwise."""
    end = None if lag is None else 1000 + lag
    values = {"records": 100, "bytes": 1000, "latency_ms_min": 5.0, "latency_ms_max": 30.0, "latency_ms_avg": 10.0}
    return PartitionRecord(topic, f"east.{topic}", number, position=1000, end=end, **{**values, **more})


def report(
    at: int,
    *partitions: PartitionRecord,
    flow: str = FLOW,
    run_id: str | None = None,
    error: str | None = None,
    notes: Sequence[str] = (),
    **more: Any,
) -> RunReport:
    """Of a run that took 10 s and ended when it was reported."""
    failed = error is not None or any(partition_record.error for partition_record in partitions)
    state = RunState.FAILED if failed else RunState.DONE
    name = run_id or f"run-{at}"
    record = RunRecord(flow, name, at - 10_000, at, 1, state, error, None, partitions, tuple(notes))
    return RunReport(flow, name, at, record, **more)
