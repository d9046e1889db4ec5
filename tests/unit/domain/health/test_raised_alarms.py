"""Which observations raise alarms, how urgent these are and what they say, and which raise none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.health.health import AlarmKind, Severity
from srm_common.domain.health.judge import judge
from srm_common.domain.monitoring.certificates import DAY_MS, CertificateEnd
from srm_common.domain.monitoring.flow_history import SHOWN_MS
from srm_common.domain.runs.open_transaction import OpenTransaction
from tests.unit.domain.health.observations import FAILED, HOUR, NOW, WELL, exactly

HANGING = OpenTransaction("t", 0, 3, 9, NOW - 3 * HOUR, 7, "till")
YOUNG = OpenTransaction("t", 2, 0, 1, NOW - 1_200_000)


@pytest.mark.parametrize(
    ("changed", "kind", "severity", "text"),
    [
        (
            {"lag": exactly(1_001), "lag_objective_records": 1_000},
            AlarmKind.LAG_OBJECTIVE,
            Severity.WARNING,
            "a->b is 1,001 records behind; its objective is 1,000",
        ),
        (
            {"last_run_ended_ms": NOW - HOUR, "good_run_ended_ms": NOW - HOUR},
            AlarmKind.STALLED,
            Severity.CRITICAL,
            "no run of a->b has succeeded for 60 min, although one should every 2 min",
        ),
        (
            {**FAILED, "good_run_ended_ms": NOW - HOUR},
            AlarmKind.STALLED,
            Severity.CRITICAL,
            "no run of a->b has succeeded for 60 min, although one should every 2 min; the last one failed: "
            "orders-3: it broke",
        ),
        (
            {"misconfigured": "x"},
            AlarmKind.STALLED,
            Severity.CRITICAL,
            "a->b is disabled by the configuration: x",
        ),
        (
            {
                "good_run_ended_ms": NOW - HOUR,
                "running_since_ms": NOW - HOUR + 5,
                "quiet_since_ms": NOW - 120_001,
                "waiting": "task replicate waits for a worker",
            },
            AlarmKind.STALLED,
            Severity.CRITICAL,
            "no run of a->b has succeeded for 60 min, although one should every 2 min; "
            "task replicate waits for a worker",
        ),
        ({"heartbeat_silence": "no heartbeat"}, AlarmKind.HEARTBEAT_ABSENT, Severity.WARNING, "no heartbeat"),
        (
            {"last_run_lost_records": 3, "lost_since_ms": NOW},
            AlarmKind.LOST_DATA,
            Severity.CRITICAL,
            "3 records of a->b disappeared at the source before they were copied",
        ),
        (
            {"untranslated_groups": 1, "untranslated_text": "g: before the map"},
            AlarmKind.UNTRANSLATED_GROUPS,
            Severity.WARNING,
            "1 group of a->b cannot resume on the target: g: before the map",
        ),
        (
            {"foreign_writers": "a.t-0, offsets 5 to 9"},
            AlarmKind.FOREIGN_WRITER,
            Severity.CRITICAL,
            "copies of a->b have another writer: a.t-0, offsets 5 to 9",
        ),
        (
            {"copies_differ": "1 of 3 partitions, the first: a.t-0, offset 5"},
            AlarmKind.COPIES_DIFFER,
            Severity.CRITICAL,
            "copies of a->b differ from what was committed: 1 of 3 partitions, the first: a.t-0, offset 5",
        ),
        (
            {"skipped_records": 3, "skipped_ms": NOW - SHOWN_MS + 1, "skipped_text": "2 records were left out"},
            AlarmKind.SKIPPED_RECORDS,
            Severity.WARNING,
            "transforms of a->b could not handle 3 records; none of them is on the target; in the newest such run: 2 "
            "records were left out",
        ),
        (
            {"skipped_records": 3, "dead_letters": 2, "skipped_ms": NOW},
            AlarmKind.SKIPPED_RECORDS,
            Severity.WARNING,
            "transforms of a->b could not handle 3 records; 2 of them are in the dead letter topic",
        ),
        (
            {"skipped_records": 1, "dead_letters": 1, "skipped_ms": NOW, "paused": True},
            AlarmKind.SKIPPED_RECORDS,
            Severity.WARNING,
            "transforms of a->b could not handle 1 record; it is in the dead letter topic",
        ),
        (
            {"skipped_records": 9, "dead_letters": 9, "skipped_ms": NOW, "skipped_topics": ("t", "u")}
            | {"dead_letter_topic": "a.bad"},
            AlarmKind.SKIPPED_RECORDS,
            Severity.WARNING,
            "transforms of a->b could not handle 9 records of t and u; all of them are in the dead letter topic a.bad",
        ),
        (
            {"skipped_records": 1, "skipped_ms": NOW, "skipped_topics": ("t",), "dead_letter_topic": "a.refused"},
            AlarmKind.SKIPPED_RECORDS,
            Severity.WARNING,
            "transforms of a->b could not handle 1 record of t; it is not on the target",
        ),
        (
            {"skipped_records": 9, "skipped_ms": NOW, "skipped_topics": ("t", "u", "v", "w")},
            AlarmKind.SKIPPED_RECORDS,
            Severity.WARNING,
            "transforms of a->b could not handle 9 records of t, u, v and other topics; none of them is on the target",
        ),
        (
            {"certificates": (CertificateEnd("a", NOW + 30 * DAY_MS, "the client certificate"), CertificateEnd("b"))},
            AlarmKind.CERTIFICATE_EXPIRY,
            Severity.WARNING,
            "connections of a->b: the client certificate of cluster 'a' ends in 30 d, on 2023-12-14 22:13 UTC",
        ),
        (
            {"certificates": (CertificateEnd("a", NOW + 9 * DAY_MS, "x"), CertificateEnd("b", NOW - DAY_MS, "y"))}
            | {"paused": True},
            AlarmKind.CERTIFICATE_EXPIRY,
            Severity.CRITICAL,
            "connections of a->b: y of cluster 'b' ended 24 h ago, on 2023-11-13 22:13 UTC; x of cluster 'a' ends in "
            "9 d, on 2023-11-23 22:13 UTC",
        ),
        (
            {"open_transactions": (HANGING, OpenTransaction("t", 1, 5, 6, NOW - 1_201_000), YOUNG)},
            AlarmKind.OPEN_TRANSACTION,
            Severity.CRITICAL,
            "a->b waits for an open transaction at the source: t-0 cannot be read beyond offset 3 of 9: producer 7 "
            "('till') has a transaction open, for 3 h; 1 other partition likewise",
        ),
        (
            {"open_transactions": (YOUNG,), "open_transaction_alarm_seconds": 60.0},
            AlarmKind.OPEN_TRANSACTION,
            Severity.CRITICAL,
            "a->b waits for an open transaction at the source: t-2 cannot be read beyond offset 0 of 1: a producer has "
            "a transaction open, for 20 min",
        ),
    ],
)
def test_alarms(changed: dict[str, Any], kind: AlarmKind, severity: Severity, text: str) -> None:
    (alarm,) = judge(replace(WELL, **changed)).alarms
    assert (alarm.kind, alarm.severity, alarm.text, alarm.flow) == (kind, severity, text, "a->b")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        FAILED,  # one failed run is a state, not yet an alarm
        {"lag": exactly(1_000), "lag_objective_records": 1_000},
        {"good_run_ended_ms": NOW - 3 * HOUR, "last_run_ended_ms": NOW - 3 * HOUR, "running_since_ms": NOW - HOUR},
        {"good_run_ended_ms": NOW - HOUR, "running_since_ms": NOW - HOUR, "quiet_since_ms": NOW - 120_000},
        {"good_run_ended_ms": NOW - HOUR, "due_since_ms": NOW - 120_000},
        {"paused": True, "good_run_ended_ms": NOW - HOUR, "lag": exactly(9), "lag_objective_records": 1},
        {"paused": True, "heartbeat_silence": "no heartbeat"},
        {"skipped_records": 3, "skipped_ms": NOW - SHOWN_MS},
        {"open_transactions": (YOUNG,)},
        {"open_transactions": (HANGING,), "paused": True},
        {"certificates": (CertificateEnd("a", NOW + 30 * DAY_MS + 1, "x"), CertificateEnd("b"))},
        {"certificates": (CertificateEnd("a", NOW + 7 * DAY_MS + 1, "x"),), "certificate_warning_days": 7},
        {"last_run_ended_ms": NOW - HOUR, "good_run_ended_ms": None, "schedule_interval_seconds": None},
    ],
)
def test_no_alarm(changed: dict[str, Any]) -> None:
    assert judge(replace(WELL, **changed)).alarms == []


def test_several_alarms_come_by_urgency() -> None:
    seen = replace(
        WELL,
        good_run_ended_ms=NOW - HOUR,
        last_run_ended_ms=NOW - HOUR,
        untranslated_groups=2,
        lag=exactly(5),
        lag_objective_records=0,
        last_run_lost_records=1,
        foreign_writers="x",
        copies_differ="y",
        skipped_records=1,
        skipped_ms=NOW,
    )
    assert [alarm.kind.value for alarm in judge(seen).alarms] == [
        "stalled",
        "lost_data",
        "foreign_writer",
        "copies_differ",
        "lag_objective",
        "untranslated_groups",
        "skipped_records",
    ]
