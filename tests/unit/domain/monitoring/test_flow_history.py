"""What is known of a flow after each report, told from its runs by hand and for any runs at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.amount import Amount
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.monitoring.flow_history import NO_RUNS, SHOWN_MS, FlowHistory
from srm_common.domain.monitoring.folding import AHEAD_MS, fold
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport
from srm_common.domain.monitoring.run_counts import RUNS_COUNTED
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunState
from tests.unit.domain.monitoring.reports import OBJECTIVE, START, report
from tests.unit.domain.monitoring.run_stories import stories

HELD = "7 offsets were deleted; set on.data.loss to skip or reset to continue without them"


def after(*reports: RunReport) -> FlowHistory:
    return reduce(fold, reports, NO_RUNS)


def with_lags(one: RunReport, *lags: int | None) -> RunReport:
    """With these lags of partitions; None: nobody knows."""
    assert one.run is not None
    partitions = (
        PartitionRecord("t", "a.t", number, position=5, end=None if lag is None else 5 + lag)
        for number, lag in enumerate(lags)
    )
    return replace(one, run=replace(one.run, partitions=tuple(partitions)))


@pytest.mark.parametrize(
    ("told", "lost", "held"),
    [
        # Each of these runs went on, so each has lost others.
        ([report(0, lost=10), report(30, lost=20), report(60, lost=5), report(90)], 35, 0),
        # A partition that stands still finds the same ones again, and once more when it goes on.
        ([report(0, lost=7, error=HELD), report(30, lost=7, error=HELD)], 7, 7),
        ([report(0, lost=7, error=HELD), report(30, lost=9, error=HELD), report(60, lost=9), report(90)], 9, 0),
        ([report(0, lost=7, error=HELD), report(30, lost=7), report(60, lost=2)], 9, 0),
        # A run that could not begin, or did not look at the partition, changes nothing of it.
        ([report(0, lost=7, error=HELD), report(30, error=HELD), report(60, lost=7, error=HELD)], 7, 7),
        ([report(0, lost=7, error=HELD), replace(report(30), run=None, fault="away"), report(60, lost=7)], 7, 0),
        # Somebody moved its offsets past the gap: what was lost is lost.
        ([report(0, lost=7, error=HELD), report(30, error="it broke"), report(60)], 7, 0),
        # After a good run without a loss it is another one.
        ([report(0, lost=10), report(30), report(60, lost=3)], 3, 0),
    ],
)
def test_what_was_lost(told: list[RunReport], lost: int, held: int) -> None:
    history = after(*told)
    assert (history.lost_records, history.lost_held) == (lost, held)


def test_records_that_transforms_could_not_take_count_together_until_a_day_without_any() -> None:
    day = SHOWN_MS // 1000
    notes = ("1 record was left out (errors.tolerance = all)",)
    first = report(0, skipped=3, letters=2)
    told = [first, first, report(30), report(60, skipped=1, notes=("other", *notes))]
    history = after(*told)
    assert (history.skipped_records, history.dead_letters) == (4, 2)
    assert (history.skipped_since_ms, history.skipped_ms) == (START, START + 60_000)
    assert history.skipped_text == notes[0]
    late = after(*told, report(45, skipped=5))
    assert (late.skipped_records, late.skipped_ms, late.skipped_text) == (9, START + 60_000, notes[0])
    again = after(*told, report(60 + day, skipped=2, letters=2))
    assert (again.skipped_records, again.dead_letters) == (2, 2)
    assert again.skipped_since_ms == again.skipped_ms == START + (60 + day) * 1000
    assert FlowHistory.from_json(json.loads(json.dumps(again.to_json()))) == again


def test_topics_of_skipped_records_are_named_up_to_a_few() -> None:
    def run(second: int, *topics: str) -> RunReport:
        one = report(second)
        assert one.run is not None
        partitions = tuple(PartitionRecord(topic, f"a.{topic}", 0, skipped_records=1) for topic in topics)
        return replace(one, run=replace(one.run, partitions=(*one.run.partitions, *partitions)))

    told = [run(60, "u"), run(0, "v"), run(120, "u", "x"), run(120, "u", "x", "y")]
    assert [after(*told[:count]).skipped_topics for count in (1, 2, 3, 4)] == [
        ("u",),
        ("u", "v"),
        ("u", "v", "x"),
        ("u", "v", "x", "y"),
    ]
    history = after(*told, run(180, "a", "b"))
    assert history.skipped_topics == ("u", "v", "x", "y")
    assert FlowHistory.from_json(json.loads(json.dumps(history.to_json()))) == history
    assert after(*told, run(200 + SHOWN_MS // 1000, "z")).skipped_topics == ("z",)


def test_a_partition_stands_still_while_another_goes_on() -> None:
    def run(second: int, held: int, gone: int) -> RunReport:
        one = report(second, lost=held, error=HELD)
        assert one.run is not None
        other = PartitionRecord("t", "a.t", 1, lost_records=gone)
        return replace(one, run=replace(one.run, partitions=(*one.run.partitions, other)))

    history = after(run(0, 70, 5), run(30, 70, 5), run(60, 70, 0))
    assert (history.lost_records, history.lost_held, history.lost_now) == (80, 70, 70)
    both = report(90, lost=70)
    assert fold(history, both).lost_records == 80
    assert (history.lost_since_ms, history.lost_ms) == (START, START + 60_000)


def test_the_same_run_again_counts_once() -> None:
    before, one = after(report(0, lag=3)), report(30, lost=10)
    assert fold(fold(before, one), one) == fold(before, one)
    failed = replace(one, fault="the task was killed", reported_ms=one.reported_ms + 5)
    again = fold(fold(before, failed), replace(one, reported_ms=one.reported_ms + 9))
    assert (again.ok, again.failing_since_ms, again.lost_records) == (True, None, 10)
    assert again.lag_before == before.lag
    late = replace(one, reported_ms=one.reported_ms - 1)
    assert fold(fold(before, one), late) == fold(before, one)


def test_a_report_that_comes_late_changes_nothing_but_what_is_lost() -> None:
    known = after(report(60, lag=5))
    late = fold(known, report(30, lag=99, lost=4, error=None))
    assert (late.lag, late.reported_ms, late.ok) == (known.lag, known.reported_ms, True)
    assert (late.lost_records, late.lost_ms) == (4, START + 30_000)
    assert late.good_run_ended_ms == START + 60_000
    assert fold(after(report(60, error="it broke")), report(30)).good_run_ended_ms == START + 30_000
    # What a late one stood still for, the newer ones have found again.
    standing = after(report(60, lost=7, error=HELD))
    assert fold(standing, report(30, lost=7, error=HELD)).lost_records == 7


@pytest.mark.parametrize("told", [[report(60)], [report(0), report(30, lost=4, skipped=3, letters=2), report(60)]])
def test_a_run_that_is_reported_late_counts_once_however_often_it_comes(told: list[RunReport]) -> None:
    """Whether it was the newest one at some time or never."""
    late = report(30, lost=4, skipped=3, letters=2)
    once = fold(after(*told), late)
    assert (once.lost_records, once.skipped_records, once.dead_letters) == (4, 3, 2)
    assert fold(once, late) == once
    assert fold(FlowHistory.from_json(json.loads(json.dumps(once.to_json()))), late) == once
    # Another attempt has found one more; a report of before, or of nothing, takes nothing back.
    more = fold(once, report(30, lost=5, skipped=4, letters=3))
    assert (more.lost_records, more.skipped_records, more.dead_letters) == (5, 4, 3)
    assert fold(fold(more, late), report(30)) == more


def test_what_came_late_stays_when_the_newest_run_is_reported_again() -> None:
    newest = report(60, lost=1, skipped=1)
    known = after(report(0, lost=1, skipped=1), newest, report(30, lost=4, skipped=3), newest)
    assert (known.lost_records, known.skipped_records) == (6, 5)
    # And when an older run is, after it.
    again = fold(known, replace(report(30, lost=4, skipped=3), reported_ms=START + 70_000))
    assert (again.lost_records, again.skipped_records) == (6, 5)


def test_a_loss_that_was_reported_late_and_again_by_the_newest_run_counts_once() -> None:
    """One partition went on past a gap, and when the run is reported again, another stands still for one."""
    late = report(30, lost=1)
    again = report(90, lost=4, error=HELD)
    assert late.run is not None
    assert again.run is not None
    passed = PartitionRecord("t", "a.t", 1, lost_records=1)
    again = replace(again, run_id=late.run_id, run=replace(again.run, partitions=(*again.run.partitions, passed)))
    known = after(report(0), report(60), late)
    assert (known.losing, known.lost_records) == (False, 1)
    history = fold(known, again)
    assert (history.losing, history.lost_now, history.lost_records, history.lost_held) == (True, 5, 5, 4)
    # Another loss has begun meanwhile.
    history = fold(after(report(0), report(60), late, report(70, lost=2)), again)
    assert (history.lost_now, history.lost_records) == (5, 6)
    # The same one, whole: it is what the newest run has lost.
    same = fold(known, replace(report(90, lost=1), run_id=late.run_id))
    assert (same.losing, same.lost_now, same.lost_records) == (True, 1, 1)


def test_of_runs_too_long_ago_to_know_nothing_is_counted_again() -> None:
    known = after(*(report(second, skipped=1) for second in range(RUNS_COUNTED + 1)))
    assert known.skipped_records == RUNS_COUNTED + 1
    assert fold(known, report(0, skipped=1)) == known
    assert len(known.counted) == RUNS_COUNTED


def test_since_when_the_lag_is_over_goes_on_while_it_is_unknown() -> None:
    over, unsure = with_lags(report(0), OBJECTIVE + 1, 0), with_lags(report(30), 1, None)
    assert after(over, unsure).lag_over_since_ms == START
    assert after(unsure).lag_over_since_ms is None, "at least 1 is not over it"
    assert after(over, with_lags(report(30), 1, 2)).lag_over_since_ms is None
    assert after(over, replace(report(30), run=None, fault="away")).lag_over_since_ms == START
    assert after(with_lags(report(0), OBJECTIVE + 1, None)).lag_over_since_ms == START, "at least so many are"
    assert after(over, unsure).lag == Amount(1, 1, parts=2, unknown=1)


def test_a_run_at_work_is_neither_good_nor_bad() -> None:
    failed, one = report(0, error="it broke"), report(30)
    assert one.run is not None
    at_work = replace(one, run=replace(one.run, state=RunState.RUNNING, finished_ms=None))
    history = after(failed, at_work)
    assert (history.ok, history.failing_since_ms) == (None, START)


def test_groups_are_known_until_somebody_could_look_again() -> None:
    told = replace(report(0), groups=(GroupSample("g", 2, 1, "too old"),))
    away = replace(report(30), run=None, fault="away")
    assert after(told, away).untranslated_groups == 1
    assert (after(told, away, report(60)).untranslated_groups, after(told, report(30)).untranslated_text) == (0, None)


def test_a_report_from_a_host_whose_clock_is_ahead_hides_nothing() -> None:
    """Those of other hosts count as soon as they come, and what it told is from then on."""
    hour = 3600
    lag = OBJECTIVE + 1
    known = after(report(0), report(30 + hour, lag=lag, lost=2, skipped=1))
    late = report(60, error="it broke", lag=lag)
    assert fold(known, late).ok, "None says that no clock is wrong"
    at_ms = late.reported_ms
    history = fold(known, late, at_ms)
    assert (history.ok, history.run_id, history.failing_since_ms) == (False, "r60", at_ms)
    times = (history.good_run_ended_ms, history.lag_over_since_ms, history.lost_ms, history.skipped_ms)
    assert set(times) == {at_ms}
    assert (history.lost_records, history.skipped_records) == (2, 1)
    # However often it comes, also from another host that reports the same run at the right time.
    assert fold(history, late, at_ms) == history
    again = replace(report(90, lag=lag, lost=2, skipped=1), run_id=f"r{30 + hour}")
    assert fold(history, again, at_ms + 30_000).lost_records == 2
    assert fold(history, again, at_ms + 30_000).skipped_records == 1
    # The same run itself, again, at the right time, in place of what it told before.
    same = replace(report(60), run_id=f"r{30 + hour}")
    assert fold(known, same, at_ms).lag_before == after(report(0)).lag


def test_a_clock_that_is_less_than_a_minute_ahead_is_believed() -> None:
    known = after(report(59))
    assert fold(known, report(0), START).run_id == "r59"
    assert fold(after(report(61)), report(0), START).run_id == "r0"


@given(stories())
def test_now_changes_nothing_where_clocks_are_right(story: Sequence[RunReport]) -> None:
    plain = timed = NO_RUNS
    now_ms = START
    for run_report in story:
        now_ms = max(now_ms, run_report.reported_ms)
        plain, timed = fold(plain, run_report), fold(timed, run_report, now_ms)
        assert plain == timed


@given(stories(), st.lists(st.sampled_from([0, 0, -7_200_000, 7_200_000]), min_size=12, max_size=12))
def test_whatever_clocks_do_the_newest_report_counts_and_records_once(
    story: Sequence[RunReport], errors: Sequence[int]
) -> None:
    """With a clock of its own for each report, which its host goes by, too."""
    known = NO_RUNS
    for run_report, error in zip(story, errors, strict=False):
        at_ms = run_report.reported_ms + error
        told = replace(run_report, reported_ms=at_ms)
        known = fold(known, told, at_ms)
        assert fold(known, told, at_ms) == known, "the same run again"
        assert known.reported_ms is not None
        assert known.reported_ms - at_ms <= AHEAD_MS
        assert FlowHistory.from_json(json.loads(json.dumps(known.to_json()))) == known
        assert 0 <= known.lost_held <= known.lost_records


@given(stories())
def test_whatever_happens(story: Sequence[RunReport]) -> None:
    """Kept and read back after each report it is the same; and what must hold of any flow holds."""
    known = NO_RUNS
    for run_report in story:
        before, known = known, fold(known, run_report)
        assert FlowHistory.from_json(json.loads(json.dumps(known.to_json()))) == known
        if run_report.run_id == known.run_id:
            assert fold(known, run_report) == known, "the same run again"
        elif known.reported_ms is not None and run_report.reported_ms < known.reported_ms:
            assert fold(known, run_report) == known, "a late report again"
        assert 0 <= known.lost_held <= known.lost_records
        assert known.lost_records >= known.lost_now
        if before.losing and known.losing and before.run_id != known.run_id:
            assert known.lost_records >= before.lost_records, "what is lost does not come back"
        assert (known.failing_since_ms is not None) == (known.ok is False)
        if known.reported_ms == run_report.reported_ms:
            assert (known.lag is None) == (run_report.lag is None)


@pytest.mark.parametrize("document", [None, "x", {"lag": "many"}, {"run_id": 5}, {"before": 3}])
def test_what_is_no_history(document: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        FlowHistory.from_json(document)


def test_what_older_software_remembered_is_read() -> None:
    """Of the asset state: plain numbers, and neither the newest run nor when a loss was seen last."""
    old = {"good_run_ended_ms": 5, "failing_since_ms": 7, "lag": 12, "losing": True, "lost_records": 3}
    known = FlowHistory.from_json({**old, "lost_since_ms": 6, "lag_before": None, "told": {}})
    assert (known.ok, known.lag, known.lag_before, known.lost_ms) == (False, Amount.exactly(12), None, 6)
    assert FlowHistory.from_json({"good_run_ended_ms": 5}).ok
    assert FlowHistory.from_json({"told": {}}).ok is None


def test_the_first_heartbeat_has_as_long_as_any_other() -> None:
    def never(second: int, **changes: Any) -> RunReport:
        now_ms = START + second * 1000
        return replace(report(second), heartbeats=HeartbeatReport("a->b", "a", now_ms, 30_000, 120_000, **changes))

    def silences(history: FlowHistory, *reports: RunReport) -> list[str | None]:
        found = []
        for one in reports:
            history = FlowHistory.from_json(json.loads(json.dumps(fold(history, one).to_json())))
            found.append(history.heartbeat_silence)
        return found

    def silence(*reports: RunReport) -> str | None:
        return silences(NO_RUNS, *reports)[-1]

    assert silence(never(0), never(120)) is None
    assert "no heartbeat of 'a' has been copied" in str(silence(never(0), never(60, fault="no right"), never(121)))
    assert silence(never(0), never(121), report(150)) is not None, "it did not look"
    beat = CopiedHeartbeat("a.heartbeats", ("a", "b"), Heartbeat("a", "b", START + 60_000))
    assert silence(never(0), never(60, copied=(beat,)), never(121)) is None
    # Raised stays raised: by an earlier version, at the first report, and after the topic is made again.
    raised = FlowHistory(heartbeat_silence="no heartbeat")
    assert None not in silences(raised, never(30), never(60), never(90), never(120), never(151))
    assert None not in silences(NO_RUNS, never(200, copied=(beat,)), never(230), never(260), never(290))
    assert silences(raised, never(30), never(60), never(90, copied=(beat,)), never(120))[2:] == [None, None]


def test_heartbeats_in_the_lag_before_are_known() -> None:
    known = after(replace(report(0), heartbeat_lag=1), replace(report(30), heartbeat_lag=2))
    assert (known.heartbeat_lag_before, known.heartbeat_lag) == (1, 2)
    assert FlowHistory.from_json(json.loads(json.dumps(known.to_json()))).heartbeat_lag_before == 1
    assert FlowHistory.from_json({"heartbeat_lag": 2}).heartbeat_lag_before == 0
