from __future__ import annotations

import json
from dataclasses import replace

from srm_common.domain.health.alarms import raised
from srm_common.domain.health.health import AlarmKind, Observation
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.health.watched_flow import WatchMemory
from srm_common.domain.monitoring.certificates import DAY_MS, CertificateEnd

HOUR_MS = 3_600_000
START = 1_700_000_000_000
WELL = Observation("a->b", START)
LOST = replace(WELL, lost_records=1, lost_ms=START, lost_since_ms=START, lost_text="orders-0: 1 offset")
MORE = replace(LOST, lost_records=50_000_001, lost_text="payments-3: 50,000,000 offsets")


class Mail:
    """A notifier, and the kinds of alarms that it sends."""

    def __init__(self, memory: AlarmMemory | None = None) -> None:
        self.memory = AlarmMemory() if memory is None else memory

    def sends(self, seen: Observation, after_ms: int) -> list[AlarmKind]:
        self.memory = AlarmMemory.from_json(json.loads(json.dumps(self.memory.to_json())))
        now_ms = START + after_ms
        alarms = raised(replace(seen, now_ms=now_ms))
        self.memory = self.memory.with_earlier(alarms)
        begun, over = self.memory.unsent("mail", alarms, now_ms)
        for alarm in begun:
            self.memory = self.memory.mark_notified("mail", alarm, now_ms)
        for kind in over:
            self.memory = self.memory.mark_resolved("mail", kind)
        return [alarm.kind for alarm in begun]


def earlier(kind: AlarmKind, text: str) -> Mail:
    """One that an earlier version told of ``kind``."""
    return Mail(AlarmMemory.from_json({"told": {"mail": {kind.value: text}}}))


def test_another_loss_is_sent_once_and_within_the_hour() -> None:
    mail = Mail()
    assert mail.sends(LOST, 0) == [AlarmKind.LOST_DATA]
    assert mail.sends(LOST, 2 * HOUR_MS) == []
    assert mail.sends(MORE, 2 * HOUR_MS) == [AlarmKind.LOST_DATA]
    assert "50,000,001 records" in mail.memory.told["mail"]["lost_data"]
    more = replace(MORE, lost_records=60_000_000)
    assert mail.sends(more, 3 * HOUR_MS - 1) == []
    assert mail.sends(more, 3 * HOUR_MS) == [AlarmKind.LOST_DATA]
    # As many records, but of another loss.
    assert mail.sends(replace(more, lost_since_ms=START + 1), 5 * HOUR_MS) == [AlarmKind.LOST_DATA]
    assert mail.sends(WELL, 6 * HOUR_MS) == []
    assert (mail.memory.told, mail.memory.sent) == ({}, {})


def test_other_copies_and_other_writers_are_sent() -> None:
    mail = Mail()
    kinds = [AlarmKind.FOREIGN_WRITER, AlarmKind.COPIES_DIFFER]
    assert mail.sends(replace(WELL, foreign_writers="a.t-0", copies_differ="a.t-0 differs"), 0) == kinds
    assert mail.sends(replace(WELL, foreign_writers="a.u-1", copies_differ="a.t-0 differs"), HOUR_MS) == kinds[:1]
    assert mail.sends(replace(WELL, foreign_writers="a.u-1", copies_differ="a.u-1 differs"), HOUR_MS) == kinds[1:]


def test_a_warning_that_becomes_critical_is_sent_at_once() -> None:
    mail = Mail()
    ending = replace(WELL, certificates=(CertificateEnd("a", START + 4 * DAY_MS, "the certificate of broker 1"),))
    assert mail.sends(ending, DAY_MS - HOUR_MS // 2) == [AlarmKind.CERTIFICATE_EXPIRY]
    assert mail.sends(ending, DAY_MS) == [AlarmKind.CERTIFICATE_EXPIRY]
    assert mail.sends(ending, 2 * DAY_MS) == []


def test_warnings_with_other_figures_are_not_sent_again() -> None:
    mail = Mail()
    assert mail.sends(replace(WELL, untranslated_groups=1, untranslated_text="g"), 0) == [AlarmKind.UNTRANSLATED_GROUPS]
    assert mail.sends(replace(WELL, untranslated_groups=2, untranslated_text="h"), 2 * HOUR_MS) == []


def test_what_an_earlier_version_sent_is_sent_again_once_it_is_worse() -> None:
    mail = earlier(AlarmKind.LOST_DATA, "1 record")
    assert mail.sends(LOST, 2 * HOUR_MS) == []
    assert mail.memory.told == {"mail": {"lost_data": "1 record"}}
    assert mail.sends(MORE, 2 * HOUR_MS) == [AlarmKind.LOST_DATA]
    odd = {"told": {"mail": {"lost_data": "1 record"}}, "sent": {"mail": {"lost_data": 5}}}
    assert Mail(AlarmMemory.from_json(odd)).sends(LOST, 2 * HOUR_MS) == []


def test_others_than_an_earlier_version_sent_are_sent() -> None:
    same, other = replace(WELL, copies_differ="a.t-0 differs"), replace(WELL, copies_differ="a.u-1 differs")
    (alarm,) = raised(same)
    assert earlier(AlarmKind.COPIES_DIFFER, alarm.text).sends(same, HOUR_MS) == []
    mail = earlier(AlarmKind.COPIES_DIFFER, alarm.text)
    assert mail.sends(other, HOUR_MS) == [AlarmKind.COPIES_DIFFER]
    assert mail.sends(other, 3 * HOUR_MS) == []


def test_an_end_of_a_certificate_that_an_earlier_version_sent_is_sent_when_critical() -> None:
    ending = replace(WELL, certificates=(CertificateEnd("a", START + 4 * DAY_MS, "the certificate of broker 1"),))
    mail = earlier(AlarmKind.CERTIFICATE_EXPIRY, "it ends in 4 days")
    assert mail.sends(ending, 0) == []
    assert mail.sends(ending, 2 * DAY_MS) == [AlarmKind.CERTIFICATE_EXPIRY]
    # It may have been a warning when it was sent.
    mail = earlier(AlarmKind.CERTIFICATE_EXPIRY, "it ends in 4 days")
    assert mail.sends(ending, 2 * DAY_MS) == [AlarmKind.CERTIFICATE_EXPIRY]
    assert mail.sends(ending, 2 * DAY_MS) == []


def test_the_watch_keeps_it_too() -> None:
    (alarm,) = raised(LOST)
    memory = WatchMemory(paused=True).mark_notified("mail", alarm, START)
    assert WatchMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory
