"""The demo as ``make demo`` and ``make demo-stop`` run it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from srm_common.testing.ports import ReservedPort

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]


class Demo:
    """The demo in a folder of its own, its output line by line."""

    def __init__(self, folder: Path) -> None:
        self.port = ReservedPort()
        self.environment = {
            **os.environ,
            "SRM_DEMO_FOLDER": str(folder),
            "SRM_DEMO_PORT": str(self.port.number),
            "PYTHONUNBUFFERED": "1",
        }
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demo", "--interval", "5"],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def found(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, "".join(self.lines))

    def wait_for(self, pattern: str, seconds: float) -> re.Match[str]:
        """The first match in the output; the output is in the error when none comes, or when the demo ends."""
        deadline = time.monotonic() + seconds
        while (match := self.found(pattern)) is None:
            ended = self.process.poll()
            assert ended is None, f"the demo ended with {ended}:\n{''.join(self.lines)}"
            assert time.monotonic() < deadline, f"no {pattern!r} within {seconds:g} s:\n{''.join(self.lines)}"
            time.sleep(0.2)
        return match

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "demo", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )


def living(processes: list[psutil.Process]) -> list[str]:
    found = []
    psutil.wait_procs(processes, timeout=180)  # those that were killed end a moment later
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            # Another process may have the number by now.
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


def test_the_demo_copies_says_where_to_look_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    started: list[psutil.Process] = []
    try:
        address = demo.wait_for("open (http://\\S+) and log in as admin with password admin", 300)
        with urllib.request.urlopen(address[1], timeout=120) as page:
            assert page.status == 200
        demo.wait_for(r"copied: [1-9]\d*", 300)
        for topic in ("orders", "payments", "clicks", "profiles", "sensors", "audit"):
            demo.wait_for(rf"behind: .*\b{topic} \d+", 300)

        again = demo.command()
        assert again.returncode != 0
        assert "a demo runs already" in again.stderr

        started = psutil.Process(demo.process.pid).children(recursive=True)
        assert len(started) > 7, "two brokers, a writer, four processes of Airflow and what they started"
        stopped = demo.command("stop")
        assert stopped.stdout == "the demo has ended\n", stopped.stderr
        assert demo.process.wait(300) == 0, "".join(demo.lines)
    finally:
        if demo.process.poll() is None:
            demo.command("stop")
        demo.process.kill()
    assert living(started) == []
    assert demo.command("stop").stdout == "no demo runs\n"


def test_what_a_killed_demo_left_is_ended_by_demo_stop(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    try:
        demo.wait_for("open http", 300)
        started = psutil.Process(demo.process.pid).children(recursive=True)
        demo.process.kill()
        demo.process.wait(300)
    finally:
        stopped = demo.command("stop")
    assert stopped.stdout == "the demo has ended\n"
    assert living(started) == []
