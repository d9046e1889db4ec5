"""What helps is there: an entry of docs/operations.md for each state and alarm, and commands that can be pasted."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from srm_common.cli.main import cli
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.health.alarms import help_with
from srm_common.domain.health.health import AlarmKind, HealthState
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.monitoring.certificates import DAY_MS, CertificateEnd
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport
from srm_common.domain.monitoring.run_report import GroupSample, RunReport, untranslated
from srm_common.domain.runs.open_transaction import OpenTransaction
from srm_common.domain.verification.summary import VerificationSummary
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.errors import ConfigError
from tests.unit.domain.monitoring.reports import START, flow_of, report

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations.md"
ALL = [*HealthState, *AlarmKind]


def test_the_page_has_an_entry_for_each_state_and_alarm_and_no_other() -> None:
    headings = re.findall(r"^### ((?:State|Alarm): .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    # As GitHub makes anchors of headings.
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert sorted(anchors) == sorted(str(help_with(what, "a->b").anchor) for what in ALL)


@pytest.mark.parametrize("what", ALL, ids=lambda what: f"{type(what).__name__}-{what}")
def test_the_command_that_helps_says_enough(
    what: HealthState | AlarmKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = help_with(what, "a->b").command
    if written is None:
        return
    monkeypatch.setenv("SRM_CONFIG", str(tmp_path / "none.properties"))
    # Whatever else a command lacks, it says before it looks for the file.
    said = CliRunner().invoke(cli, shlex.split(written)[1:]).exception
    assert isinstance(said, ConfigError)
    assert "there is no such file" in str(said)


@pytest.mark.parametrize("what", ALL, ids=lambda what: f"{type(what).__name__}-{what}")
def test_the_command_that_helps_can_be_pasted(what: HealthState | AlarmKind) -> None:
    written = help_with(what, "a->b").command
    if written is None:
        return
    program, name, *arguments = shlex.split(written)
    assert program == "srm-control"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    # Raises what click would tell the user.
    parsed = command.make_context(name, arguments, parent=click.Context(cli))
    assert parsed.params["flow"] == "a->b"


@pytest.fixture
def flow(tmp_path: Path) -> FlowSettings:
    return flow_of(tmp_path)


def test_a_flow_that_falls_behind_fails_and_comes_back(flow: FlowSettings) -> None:
    memory, told = AlarmMemory(), []
    for run_report in (
        report(0),
        report(30, lag=11),
        report(60, lag=12),
        report(90, lag=12, error="it broke"),
        report(170, lag=12, error="it broke"),
        replace(report(200), run=None, fault="cluster b is not reachable"),
        report(230, lag=10),
    ):
        memory = AlarmMemory.from_json(json.loads(json.dumps(memory.to_json())))
        memory = memory.after(run_report)
        health, alarms = judge(observe(flow.name, memory.history, flow, None, run_report.reported_ms))
        begun, over = memory.unsent("mail", alarms, run_report.reported_ms)
        for alarm in begun:
            memory = memory.mark_notified("mail", alarm, run_report.reported_ms)
        for kind in over:
            memory = memory.mark_resolved("mail", kind)
        told.append((health.state.value, health.since_ms, [alarm.kind.value for alarm in begun], sorted(over)))

    def at(second: int) -> int:
        return START + second * 1000

    assert told == [
        ("running", None, [], []),
        ("catching_up", at(30), ["lag_objective"], []),
        ("catching_up", at(30), [], []),
        ("failing", at(90), [], []),
        # 110 seconds after the last good run, which ended at 60.
        ("failing", at(90), ["stalled"], []),
        ("failing", at(90), [], []),
        ("running", None, [], ["lag_objective", "stalled"]),
    ]
    assert memory.told == {}


def _everything(second: int) -> RunReport:
    """A report that raises all alarms but ``stalled``."""
    told = report(second, lag=11, lost=7, skipped=3, error="7 offsets were deleted; set on.data.loss to skip")
    assert told.run is not None
    now_ms = told.reported_ms
    old = CopiedHeartbeat("a.heartbeats", ("a", "b"), Heartbeat("a", "b", now_ms - 3_600_000))
    verified = VerificationSummary(
        Against.SOURCE, now_ms, now_ms, {Verdict.DIFFERENT: 1}, oldest_ms=now_ms, sentence="t-0 differs"
    )
    return replace(
        told,
        run=replace(told.run, open_transactions=(OpenTransaction("t", 0, 3, 9, now_ms - 3_600_000),)),
        heartbeats=HeartbeatReport("a->b", "a", now_ms, 1_000, 60_000, (old,)),
        groups=(GroupSample("g", 4, 1, "too old"),),
        foreign_writers="a.t-0, offsets 5 to 9",
        verification=verified,
        certificates=(CertificateEnd("a", now_ms + 2 * DAY_MS, "the certificate of broker 1"),),
    )


def _blind(second: int, *, stopped: bool) -> RunReport:
    """A run that could not reach the source, or the target, so that not even its record could be read."""
    if not stopped:
        return RunReport("a->b", f"r{second}", START + second * 1000, None, fault="cluster b is not reachable")
    told = report(second, stopped="cluster a is not reachable")
    assert told.run is not None
    beats = HeartbeatReport("a->b", "a", told.reported_ms, 1_000, 60_000, fault="the topic cannot be read")
    return replace(told, run=replace(told.run, partitions=()), heartbeats=beats, foreign_writers="a.t-0, as before")


@pytest.mark.parametrize("stopped", [True, False], ids=["source", "target"])
def test_a_run_that_could_not_look_resolves_no_alarm(flow: FlowSettings, stopped: bool) -> None:
    """However often, and for longer than a day; the lag is over the objective that the reports name."""
    memory = AlarmMemory().after(_everything(0))
    alarms = judge(observe(flow.name, memory.history, flow, None, START)).alarms
    assert {alarm.kind for alarm in alarms} == set(AlarmKind) - {AlarmKind.STALLED}
    for alarm in alarms:
        memory = memory.mark_notified("mail", alarm, START)
    for second in (30, 60, 100_000):
        memory = memory.after(_blind(second, stopped=stopped))
        for settings in (flow, None):
            seen = observe(flow.name, memory.history, settings, None, START + second * 1000)
            _, over = memory.unsent("mail", judge(seen).alarms, seen.now_ms)
            # Nobody waits for more of those: they are over after a day without any.
            assert over.keys() <= {AlarmKind.SKIPPED_RECORDS if second > 86_400 else None}
    good = replace(report(100_030), certificates=(CertificateEnd("a", None),))
    verified = VerificationSummary(Against.SOURCE, START, START, {Verdict.PROVED: 1}, oldest_ms=START)
    beats = HeartbeatReport("a->b", "a", START, 1_000, None)
    # It knows that no loss stands any more; when the last one was seen is more than a day ago.
    memory = memory.after(replace(good, verification=verified, heartbeats=beats))
    assert judge(observe(flow.name, memory.history, flow, None, START + 100_030_000)).alarms == []


def test_lag_that_was_over_its_objective_and_is_unknown(flow: FlowSettings) -> None:
    memory = AlarmMemory().after(report(0, lag=11)).after(_blind(30, stopped=False))
    (alarm,) = judge(observe(flow.name, memory.history, flow, None, START + 30_000)).alarms
    assert alarm.text == (
        "a->b is behind by an unknown number of records; its objective is 10, which it exceeded when its lag was last "
        "known"
    )
    assert alarm.since_ms == START
    # Without an objective, or one that was never exceeded, an unknown lag is none.
    nothing = replace(memory, history=replace(memory.history, lag_over_since_ms=None))
    assert judge(observe(flow.name, nothing.history, flow, None, START + 30_000)).alarms == []
    without = replace(flow, lag_objective_records=None)
    assert judge(observe(flow.name, memory.history, without, None, START + 30_000)).alarms == []


def test_lost_data_is_told_once_and_kept_for_a_day(flow: FlowSettings) -> None:
    note = "t-0: 7 offsets were deleted; on.data.loss=skip: continuing at offset 7"
    memory = AlarmMemory().after(report(0, lost=7, notes=("slot 1 lost its worker", note)))
    verdicts = []
    for second in (1, 86_000, 86_500):
        one = report(second)
        memory = memory.after(one)
        verdicts.append(judge(observe(flow.name, memory.history, flow, None, one.reported_ms)))
    assert [verdict.health.state for verdict in verdicts] == [
        HealthState.LOST_DATA,
        HealthState.LOST_DATA,
        HealthState.RUNNING,
    ]
    (alarm,) = verdicts[0].alarms
    assert alarm.text == f"7 records of a->b disappeared at the source before they were copied: {note}"
    assert verdicts[2].alarms == []


def test_a_notifier_is_told_what_it_does_not_know(flow: FlowSettings) -> None:
    one = report(0, lag=11)
    memory = AlarmMemory().after(one)
    alarms = judge(observe(flow.name, memory.history, flow, None, one.reported_ms)).alarms
    memory = memory.mark_notified("mail", alarms[0], START)
    assert memory.unsent("mail", alarms, START) == ([], {})
    assert memory.unsent("chat", alarms, START) == (alarms, {})
    assert memory.unsent("mail", [], START) == ([], {"lag_objective": "a->b is 11 records behind; its objective is 10"})
    assert memory.limited_to(["chat"]).told == {}


@pytest.mark.parametrize("document", [None, "x", {}, {"told": 5}, {"told": {"mail": 5}}, {"lost_text": 5, "told": {}}])
def test_a_memory_of_another_form_is_none(document: object) -> None:
    assert AlarmMemory.from_json(document) == AlarmMemory()


def test_untranslated_groups() -> None:
    assert untranslated([GroupSample("g", 3, 3)]) == (0, None)
    found = untranslated([GroupSample("h", 3, 2), GroupSample("g", 4, 1, "before the map"), GroupSample("i", 1, 1)])
    assert found == (2, "g on 3 of 4 partitions: before the map")
