"""``srm-control top`` over a history that tests have written, once and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.cli.commands import status
from srm_common.cli.main import run
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.store.metrics_store import MetricsStore

FLOWS = """\
clusters = a, b, c
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
c.bootstrap.servers = 127.0.0.1:3
a->b.enabled = true
a->c.enabled = true
b->a.enabled = true
b->c.tasks.max = many
b->c.enabled = true
lag.objective.records = 100
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its flows have run: a->b well, a->c fails, b->a falls behind; b->c is misconfigured."""
    path = tmp_path / "srm.properties"
    path.write_text(FLOWS)
    monkeypatch.setenv("SRM_DATABASE", f"sqlite:///{tmp_path}/srm-metrics.db")
    monkeypatch.delenv("SRM_AIRFLOW_URL", raising=False)
    store = MetricsStore(f"sqlite:///{tmp_path}/srm-metrics.db")
    now = int(time.time() * 1000)
    for flow, lag, error in (("a->b", 0, None), ("a->c", 7, "[red]it broke[/]"), ("b->a", 12_345, None)):
        one = PartitionRecord("t", "t", 0, records=50, bytes=3_000_000, position=9, end=9 + lag, error=error)
        if flow == "b->a":
            told = LatencyHistogram(((22, 40), (40, 10)))
            one = replace(one, latency_ms_min=99.0, latency_ms_avg=500.0, latency_ms_max=2_200.0, latencies=told)
        state = RunState.DONE if error is None else RunState.FAILED
        record = RunRecord(flow, "r1", now - 3_000, now - 2_000, 1, state, partitions=(one,))
        store.write(RunReport(flow, "r1", now - 1_000, record, schedule_interval_seconds=30.0))
    store.close()
    return path


def test_the_worst_flow_comes_first(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_LAG_SECONDS", 0.1)  # the clusters are not there
    assert run(["top", "--once", "-o", "json", "--config", str(file)]) == 1
    loads = json.loads(capsys.readouterr().out)
    percentiles = {one["flow"]: one["latency_percentiles_ms"] for one in loads["flows"]}
    assert percentiles["b->a"] == {"p50": 104.0, "p95": 2_200.0, "p99": 2_200.0}
    assert percentiles["a->b"] == {}
    flows = [(one["flow"], one["health"]["state"], one["lag"], one["asked"]) for one in loads["flows"]]
    assert flows == [
        ("a->c", "failing", 7, "history"),
        ("b->c", "failing", None, None),
        ("b->a", "catching_up", 12_345, "history"),
        ("a->b", "running", 0, "history"),
    ]
    assert loads["history_fault"] is None
    assert loads["flows"][3]["byte_rate"] == pytest.approx(3_000_000)
    assert [(alarm["kind"], alarm["flow"]) for one in loads["flows"] for alarm in one["alarms"]] == [
        ("stalled", "b->c"),
        ("lag_objective", "b->a"),
    ]
    assert run(["top", "--config", str(file)]) == 1  # no terminal: once
    text = capsys.readouterr().out
    assert "[red]it broke[/]" in text, "names and errors are no markup"
    assert "tasks.max must be a whole number, but is 'many'" in text
    assert "12,345 records behind, more than the objective of 100" in text


@pytest.mark.parametrize("live", [[], ["--live"]])
def test_flows_that_nobody_knows_are_not_well(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, live: list[str]
) -> None:
    monkeypatch.setenv("SRM_DATABASE", f"sqlite:///{tmp_path}/empty.db")
    file.write_text(FLOWS.replace("b->c.tasks.max = many\n", "") + "admin.timeout.ms = 500\n")
    command = ["top", "--once", "-o", "json", "--config", str(file), *live]
    assert run(command) == 3
    loads = json.loads(capsys.readouterr().out)
    assert [one["health"]["state"] for one in loads["flows"]] == ["unknown"] * 4
    # One that is known to fail counts more.
    file.write_text(FLOWS + "admin.timeout.ms = 500\n")
    assert run(command) == 1


def test_a_history_that_cannot_be_read_is_not_passed_over(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRM_DATABASE", f"sqlite:///{tmp_path}/gone/metrics.db")
    file.write_text("clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:1\n")
    assert run(["top", "--once", "-o", "json", "--config", str(file)]) == 0, "there is no flow"
    history = tmp_path / "broken.db"
    history.write_text("this is no database" * 100)
    monkeypatch.setenv("SRM_DATABASE", f"sqlite:///{history}")
    assert run(["top", "--once", "-o", "json", "--config", str(file)]) == 3


def test_watching_needs_a_terminal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--watch", "--flow", "a->b", "--config", str(file)]) == 2
    assert "--watch needs a terminal" in capsys.readouterr().err


class Terminal:
    """A process on a terminal of 200 columns."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "40"}
        command = [sys.executable, "-m", "srm_common.cli.main", *arguments]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.text = ""

    def wait_for(self, seen: Callable[[str], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not seen(self.text):
            assert time.monotonic() < end, self.text
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._master, 65536).decode()
                except OSError:  # how Linux says that the other side is closed
                    self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_a_terminal_shows_it_anew_until_ctrl_c(file: Path) -> None:
    terminal = Terminal("top", "--interval", "0.2", "--config", str(file))
    try:
        terminal.wait_for(lambda text: text.count("catching up") >= 3)
        file.write_text(FLOWS.replace("a->b.enabled = true", "a->b.enabled = soon"))
        # A file that is wrong for a moment ends nothing.
        terminal.wait_for(lambda text: "must be true or false, but is 'soon'" in text)
        file.write_text(FLOWS.replace("b->a.enabled = true\n", ""))
        shown = len(terminal.text)
        terminal.wait_for(lambda text: "a->c" in text[shown:] and "b->a" not in text[text.rindex("FLOW") :])
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for(lambda text: terminal.process.poll() is not None)
        assert terminal.process.wait(300) == 1, "a flow fails"
    finally:
        terminal.close()
