"""What the report task of one run hands to the metrics store, to Airflow's metrics and to the raw metrics topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srm_common.domain.heartbeat_report import HeartbeatReport
from srm_common.domain.run_record import RunRecord


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One consumer group after a round of checkpoints.

    ``positions`` topic partitions that the group has committed at the source within the flow; ``translated`` of them
    have a place on the target. ``reason`` is why not all have, one sentence, else None. ``synced``: its offsets are
    committed on the target by the flow (``sync.group.offsets.enabled``). ``checkpoint_latency_ms`` is from reading its
    offsets to the acknowledged checkpoint, None where none was written. ``checkpoint_ms``: when that was.
    """

    group: str
    positions: int
    translated: int
    reason: str | None = None
    synced: bool = False
    checkpoint_latency_ms: float | None = None
    checkpoint_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """How far the source's clock is ahead of this host's (``source_ms``), and the target's (``target_ms``); None where
    it could not be told. ``uncertainty_ms`` is the larger of both measurements' errors."""

    source_ms: float | None = None
    target_ms: float | None = None
    uncertainty_ms: float | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of one flow as it was reported at ``reported_ms`` (epoch milliseconds).

    ``run`` is None when the run left no record, ``fault`` then says why, in one sentence. ``warnings`` need somebody
    although the flow copies. ``decisions``, ``plan`` and ``filters`` are the JSON documents that the flow keeps of
    itself (``srm-flow-state``), None where they have not changed since the last report or are not known.
    """

    flow: str
    run_id: str
    reported_ms: int
    run: RunRecord | None
    fault: str | None = None
    warnings: tuple[str, ...] = ()
    heartbeats: HeartbeatReport | None = None
    groups: tuple[GroupSample, ...] = ()
    clock: ClockSkew = ClockSkew()
    schedule_interval_seconds: float | None = None
    lag_objective_records: int | None = None
    decisions: Mapping[str, Any] | None = None
    plan: Mapping[str, Any] | None = None
    filters: Mapping[str, Any] | None = None
