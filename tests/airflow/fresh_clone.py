"""The demos as README says: ``make`` in a clone where nothing has ever run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from srm_common.testing.ports import ReservedPort

ROOT = Path(__file__).resolve().parents[2]
#: Pytest's own, and whatever would lead a demo out of its clone.
_FOREIGN = ("AIRFLOW", "PYTHON", "PYTEST", "SRM_DEMO", "SRM_CONFIG", "SRM_LOCAL_AIRFLOW", "MAKE", "MFLAGS")


class FreshClone:
    """This checkout's files as git would bring them, without bytecode. ``make`` skips the set-up, as the environment is
    that of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in filter(lambda name: (ROOT / name).is_file(), names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        self._port = ReservedPort()
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        self._environment |= {
            "SRM_DEMO_PORT": str(self._port.number),
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def demo_folder(self) -> Path:
        return self.folder / ".demo"

    def command(self, target: str) -> list[str]:
        return ["make", "--no-print-directory", "-o", "setup", target, f"VENV={sys.prefix}"]

    def make(self, target: str, timeout_seconds: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(target),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )

    @contextlib.contextmanager
    def running(self, target: str) -> Iterator[Demo]:
        """The demo of a target; what is left of it is ended with the block."""
        demo = Demo(self.command(target), self.folder, self._environment)
        try:
            yield demo
        finally:
            if demo.process.poll() is None:
                self.make("demo-stop")
            demo.process.kill()
            demo.process.wait(300)

    def close(self) -> None:
        self._port.release()


class Demo:
    """A demo that runs, its output line by line."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, pattern: str, seconds: float = 600) -> re.Match[str]:
        """The first match in the output; the output is in the error when none comes, or when the demo ends."""
        deadline = time.monotonic() + seconds
        while (match := re.search(pattern, self.text)) is None:
            ended = self.process.poll()
            assert ended is None, f"the demo ended with {ended}:\n{self.text}"
            assert time.monotonic() < deadline, f"no {pattern!r} within {seconds:g} s:\n{self.text}"
            time.sleep(0.2)
        return match

    def started(self) -> list[psutil.Process]:
        """Every process that it has started and that lives."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def kill(self) -> None:
        """Kills the demo itself, and nothing that it has started."""
        note = json.loads((self._folder / ".demo" / "demo.json").read_text())
        os.kill(int(note["pid"]), signal.SIGKILL)
        self.process.wait(300)


def living(processes: list[psutil.Process]) -> list[str]:
    found = []
    psutil.wait_procs(processes, timeout=180)  # those that were killed end a moment later
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            # Another process may have the number by now.
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found
