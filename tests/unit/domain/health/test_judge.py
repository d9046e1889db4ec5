"""The health of flows: observations with the verdict that docs/operations.md promises, and what always holds."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.amount import Amount
from srm_common.domain.health.health import AlarmKind, HealthState, Observation
from srm_common.domain.health.judge import judge
from srm_common.domain.monitoring.certificates import DAY_MS, CertificateEnd
from srm_common.domain.monitoring.flow_history import SHOWN_MS
from srm_common.domain.runs.open_transaction import OpenTransaction
from tests.unit.domain.health.observations import FAILED, HOUR, MINUTE, NOW, WELL, exactly

PART = Amount(51, 51, parts=3, unknown=1)


@pytest.mark.parametrize(
    ("changed", "state", "since_ms", "cause"),
    [
        ({}, HealthState.RUNNING, None, "the last run copied 50 records, 10 s ago"),
        ({"last_run_records": 0}, HealthState.IDLE, None, "the last run found nothing new at the source, 10 s ago"),
        (
            {"last_run_records": 0, "lag": exactly(2), "lag_before": exactly(2), "heartbeat_lag": 2},
            HealthState.IDLE,
            None,
            "the last run found nothing new at the source, 10 s ago",
        ),
        (
            {
                **{"last_run_records": 0, "lag": exactly(3), "heartbeat_lag": 2},
                **{"lag_before": exactly(2), "heartbeat_lag_before": 1},
            },
            HealthState.CATCHING_UP,
            None,
            "3 records behind, more than the last run copied; 1 more than the run before",
        ),
        # Before, there were heartbeats only.
        (
            {
                **{"last_run_records": 0, "lag": exactly(2), "heartbeat_lag": 1},
                **{"lag_before": exactly(1), "heartbeat_lag_before": 1},
            },
            HealthState.RUNNING,
            None,
            "the last run copied 0 records, 10 s ago",
        ),
        ({"last_run_records": 0, "running_since_ms": NOW - 1_000}, HealthState.RUNNING, NOW - 1_000, "the last run "),
        ({"paused": True}, HealthState.PAUSED, None, "the flow is paused in Airflow; its last run ended 10 s ago"),
        (
            {"paused": True, **FAILED},
            HealthState.PAUSED,
            None,
            "the flow is paused in Airflow; its last run failed: 1 of 4 partitions failed, the first orders-3: ",
        ),
        (
            {"paused": True, "running_since_ms": NOW - 5, "running_run_id": "r8"},
            HealthState.PAUSED,
            None,
            "the flow is paused in Airflow; of run r8, the current task continues to its end, and the others wait "
            "until the flow is resumed",
        ),
        (
            FAILED,
            HealthState.FAILING,
            NOW - 10_000,
            "1 of 4 partitions failed, the first orders-3: it broke",
        ),
        (
            {**FAILED, "failed_partitions": 0, "last_run_error": "cluster b is not reachable"},
            HealthState.FAILING,
            NOW - 10_000,
            "the last run failed: cluster b is not reachable",
        ),
        (
            {"misconfigured": "srm.properties:4: tasks.max must be a whole number", "paused": True},
            HealthState.FAILING,
            None,
            "the configuration disables the flow: srm.properties:4: tasks.max must be a whole number",
        ),
        (
            {"last_run_lost_records": 1, "lost_records": 1, "lost_since_ms": NOW - 10_000, "lost_ms": NOW, **FAILED},
            HealthState.LOST_DATA,
            NOW - 10_000,
            "1 record disappeared at the source before they were copied",
        ),
        (
            {
                "lost_records": 7,
                "lost_since_ms": NOW - HOUR,
                "lost_ms": NOW - HOUR,
                "lost_text": "t-0: on.data.loss=skip",
            },
            HealthState.LOST_DATA,
            NOW - HOUR,
            "7 records lost: t-0: on.data.loss=skip",
        ),
        (
            # A day after it was seen last, however long ago it began.
            {"lost_records": 7, "lost_since_ms": NOW - 30 * HOUR, "lost_ms": NOW - HOUR},
            HealthState.LOST_DATA,
            NOW - 30 * HOUR,
            "7 records disappeared at the source before they were copied",
        ),
        (
            {"lost_records": 7, "lost_since_ms": NOW - 2 * SHOWN_MS, "lost_ms": NOW - SHOWN_MS},
            HealthState.RUNNING,
            None,
            "the last run copied 50 records, 10 s ago",
        ),
        # Two minutes at least, four periods otherwise.
        ({"last_run_ended_ms": NOW - 120_000}, HealthState.RUNNING, None, "the last run copied 50 records, 2 min ago"),
        (
            {"last_run_ended_ms": NOW - 120_001},
            HealthState.STALLED,
            NOW - 120_001,
            "no run has ended for 2 min, although one should every 2 min",
        ),
        (
            {"last_run_ended_ms": NOW - 300_000, "schedule_interval_seconds": 75.0},
            HealthState.RUNNING,
            None,
            "the last run copied 50 records, 5 min ago",
        ),
        (
            {"last_run_ended_ms": NOW - 2_400_001, "run_max_seconds": 600.0},
            HealthState.STALLED,
            NOW - 2_400_001,
            "no run has ended for 40 min, although one should every 40 min",
        ),
        (
            {"last_run_ended_ms": NOW - 61_000, "stalled_after_seconds": 60.0},
            HealthState.STALLED,
            NOW - 61_000,
            "no run has ended for 61 s, although one should every 60 s",
        ),
        # A long run is at work, not stalled, until Airflow should have ended it.
        (
            {"last_run_ended_ms": NOW - 3 * HOUR, "running_since_ms": NOW - 3 * HOUR + 5, "lag": exactly(900)},
            HealthState.CATCHING_UP,
            NOW - 3 * HOUR + 5,
            "its run has been active for 2 h; 900 records behind before it",
        ),
        (
            {"last_run_ended_ms": NOW - 3 * HOUR, "running_since_ms": NOW - 3 * HOUR + 5},
            HealthState.CATCHING_UP,
            NOW - 3 * HOUR + 5,
            "its run has been active for 2 h",
        ),
        (
            {"last_run_ended_ms": NOW - 9 * HOUR, "running_since_ms": NOW - 8 * HOUR, "running_run_id": "r8"},
            HealthState.STALLED,
            NOW - 8 * HOUR,
            "run r8 has been active for 8 h, longer than task.execution.timeout.seconds allows",
        ),
        # A run that waits for a slot is not at work, unless it is between two tasks.
        (
            {
                "last_run_ended_ms": NOW - HOUR,
                "running_since_ms": NOW - HOUR + 5,
                "quiet_since_ms": NOW - 120_001,
                "waiting": "task replicate waits for a worker",
            },
            HealthState.STALLED,
            NOW - HOUR,
            "no run has ended for 60 min, although one should every 2 min; task replicate waits for a worker",
        ),
        (
            {
                "last_run_ended_ms": NOW - HOUR,
                "running_since_ms": NOW - HOUR + 5,
                "quiet_since_ms": NOW - 120_000,
                "waiting": "task replicate waits for a worker",
            },
            HealthState.CATCHING_UP,
            NOW - HOUR + 5,
            "its run has been active for 59 min",
        ),
        # A busy flow leaves what came in while it ran; a backlog is what a run no longer takes away.
        (
            {"lag": exactly(50), "lag_before": exactly(40)},
            HealthState.RUNNING,
            None,
            "the last run copied 50 records, 10 s ago",
        ),
        (
            {"lag": exactly(51), "lag_before": exactly(0)},
            HealthState.RUNNING,
            None,
            "the last run copied 50 records, 10 s ago",
        ),
        (
            {"lag": exactly(51), "lag_before": exactly(40)},
            HealthState.CATCHING_UP,
            None,
            "51 records behind, more than the last run copied; 11 more than the run before",
        ),
        (
            {
                "lag": exactly(51),
                "lag_before": exactly(90),
                "lag_objective_records": 50,
                "lag_over_since_ms": NOW - HOUR,
            },
            HealthState.CATCHING_UP,
            NOW - HOUR,
            "51 records behind, more than the objective of 50; 39 fewer than the run before",
        ),
        (
            {"lag": exactly(51), "lag_before": exactly(40), "lag_objective_records": 51},
            HealthState.RUNNING,
            None,
            "the last run copied 50 records, 10 s ago",
        ),
        # What is known of a lag is not all of it.
        (
            {"lag": PART, "lag_objective_records": 50},
            HealthState.CATCHING_UP,
            None,
            "at least 51 records behind, unknown in 1 of 3 partitions, more than the objective of 50",
        ),
        (
            {"lag": PART, "lag_objective_records": 51, "lag_over_since_ms": NOW - HOUR},
            HealthState.CATCHING_UP,
            NOW - HOUR,
            "at least 51 records behind, unknown in 1 of 3 partitions, more than the objective of 51",
        ),
        (
            {"lag": PART, "lag_objective_records": 51, "last_run_records": 0},
            HealthState.RUNNING,
            None,
            "the last run copied 0 records, 10 s ago; the lag is unknown in 1 of 3 partitions",
        ),
        (
            {"data_topics": 0, "last_run_records": 1},
            HealthState.HEARTBEAT_ONLY,
            None,
            "only heartbeats are copied: the flow's filters select no topic of the source; the last run ended 10 s ago",
        ),
        (
            {"data_topics": 0, "partitions": 0, "last_run_records": 0},
            HealthState.HEARTBEAT_ONLY,
            None,
            "nothing is copied, not even heartbeats: the flow's filters select no topic",
        ),
        (
            {"last_run_ended_ms": NOW - HOUR, "paused": None, "schedule_fault": "Airflow does not respond"},
            HealthState.UNKNOWN,
            NOW - HOUR,
            "no run has ended for 60 min, and it is unknown whether the flow is paused: Airflow does not respond",
        ),
        (
            {"last_run_ended_ms": NOW - HOUR, "paused": None},
            HealthState.STALLED,
            NOW - HOUR,
            "no run has ended for 60 min, although one should every 2 min",
        ),
    ],
)
def test_the_state_of_a_flow(changed: dict[str, Any], state: HealthState, since_ms: int | None, cause: str) -> None:
    health = judge(replace(WELL, **changed)).health
    assert (health.state, health.since_ms) == (state, since_ms)
    assert health.cause.startswith(cause), health.cause


def test_flows_of_which_little_is_known() -> None:
    nothing = Observation("a->b", NOW)
    assert judge(nothing).health.cause == "no run of the flow has been reported yet"
    due = judge(replace(nothing, paused=False, next_run_ms=NOW + 30_000, schedule_fault=None)).health
    assert (due.state, due.cause) == (
        HealthState.NOT_RUN,
        "no run of the flow has been reported yet; the next is due in 30 s",
    )
    begun = judge(replace(nothing, paused=False, running_since_ms=NOW - 90_000)).health
    assert (begun.state, begun.since_ms) == (HealthState.RUNNING, NOW - 90_000)
    assert begun.cause == "its first run has been active for 90 s"
    down = judge(replace(nothing, paused=False, store_fault="srm-metrics.db is locked")).health
    assert (down.state, down.cause) == (
        HealthState.UNKNOWN,
        "the history of runs cannot be read: srm-metrics.db is locked",
    )
    paused = judge(replace(nothing, paused=True)).health
    assert (paused.state, paused.cause) == (
        HealthState.PAUSED,
        "the flow is paused in Airflow; no run of it has been reported yet",
    )
    # The scheduler knows that much alone.
    assert judge(replace(nothing, paused=True, store_fault="gone")).health.state is HealthState.PAUSED


_TIMES = st.none() | st.integers(NOW - 40 * HOUR, NOW + MINUTE)
_COUNTS = st.none() | st.integers(0, 10**12)
_TEXTS = st.none() | st.just("it broke")
_SECONDS = st.none() | st.floats(1, 10**6)
_AMOUNTS = st.lists(st.none() | st.integers(0, 9), max_size=4).map(lambda ones: Amount.sum(map(Amount.of, ones)))
_BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "flow": st.just("a->b"),
    "certificates": st.sampled_from([(), (CertificateEnd("a"),), (CertificateEnd("a", NOW + DAY_MS, "x"),)]),
    "certificate_warning_days": st.floats(0, 400),
    "open_transactions": st.sampled_from([(), (OpenTransaction("t", 0, 3, 9, NOW - HOUR),)]),
    "open_transaction_alarm_seconds": st.floats(0, 7200),
    "now_ms": st.just(NOW),
    "paused": st.none() | st.booleans(),
    "disabled": st.booleans(),
    "last_run_ok": st.none() | st.booleans(),
    "run_max_seconds": st.floats(0, 10**6),
    "failed_partitions": st.integers(0, 9),
    "partitions": st.integers(0, 9),
    "lost_records": st.integers(0, 9),
    "lost_held": st.integers(0, 9),
    "last_run_lost_records": st.integers(0, 9),
    "untranslated_groups": st.integers(0, 9),
    "skipped_records": st.integers(1, 9),
    "dead_letters": st.integers(0, 9),
    "skipped_topics": st.sampled_from([(), ("t",), ("t", "u", "v", "w")]),
    "heartbeat_lag": st.integers(0, 9),
    "heartbeat_lag_before": st.integers(0, 9),
    "dead_letter_topic": st.sampled_from(["", "a.refused"]),
}


def _strategy(name: str) -> st.SearchStrategy[Any]:
    if name in _BY_FIELD:
        return _BY_FIELD[name]
    if name.endswith("_ms"):
        return _TIMES
    if name.endswith("_seconds"):
        return _SECONDS
    if name in ("lag", "lag_before"):
        return st.none() | _AMOUNTS
    return _COUNTS if name in ("lag_objective_records", "last_run_records", "data_topics") else _TEXTS


@given(st.builds(Observation, **{field.name: _strategy(field.name) for field in fields(Observation)}))
def test_every_verdict_tells_why_and_what_helps(seen: Observation) -> None:
    health, alarms = judge(seen)
    for text, help_ in [(health.cause, health.help), *((alarm.text, alarm.help) for alarm in alarms)]:
        assert re.fullmatch(r"(?!.*None).*[^.\n]", text)
        assert help_ is not None
        assert help_.text.endswith(".")
        assert help_.anchor
        assert help_.command is None or re.match(r"srm-control [a-z-]+ .*'a->b'", help_.command)
    assert health.since_ms is None or health.since_ms <= NOW + MINUTE
    assert len({alarm.kind for alarm in alarms}) == len(alarms)
    # Nothing that failed looks healthy.
    if seen.last_run_ok is False and not (seen.paused or seen.disabled):
        assert health.state in (HealthState.FAILING, HealthState.LOST_DATA)
    if seen.paused and seen.misconfigured is None:
        assert health.state is HealthState.PAUSED
    if seen.last_run_lost_records:
        assert AlarmKind.LOST_DATA in {alarm.kind for alarm in alarms}
