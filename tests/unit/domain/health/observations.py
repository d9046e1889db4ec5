"""What is seen of a flow that is well, and of one whose last run failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srm_common.domain.amount import NONE, Amount
from srm_common.domain.health.health import Observation

NOW = 1_700_000_000_000
exactly = Amount.exactly
MINUTE, HOUR = 60_000, 3_600_000
#: A flow with a run every 30 s, whose last one ended 10 s ago and copied 50 records.
WELL = Observation(
    "a->b",
    NOW,
    paused=False,
    schedule_interval_seconds=30.0,
    run_limit_seconds=21_600.0,
    last_run_id="r7",
    last_run_ok=True,
    last_run_ended_ms=NOW - 10_000,
    good_run_ended_ms=NOW - 10_000,
    last_run_records=50,
    partitions=4,
    lag=NONE,
    lag_before=NONE,
    reported_ms=NOW - 9_000,
)
FAILED: Mapping[str, Any] = {
    "last_run_ok": False,
    "last_run_error": "orders-3: it broke",
    "failed_partitions": 1,
    "failing_since_ms": NOW - 10_000,
    "good_run_ended_ms": NOW - 40_000,
}
