"""Forks runs from a process that has imported what they need: a second of CPU less for each driver and each worker.

    python -m tests.faults.fork_server

Reads one order a line, as JSON. Each run is the leader of a session of its own, and ends when its server ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from srm_common.errors import LocalKafkaError
from srm_common.testing.java import temporary_folder

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 300.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """Call ``main`` of a module with these arguments, in a process whose output goes to a file.

    Its process id and its exit code (negative: ended by that signal) are files beside ``output``.
    """

    module: str
    arguments: Sequence[str]
    output: str

    @property
    def pid_file(self) -> Path:
        return Path(f"{self.output}.pid")

    @property
    def exit_file(self) -> Path:
        return Path(f"{self.output}.exit")


class ForkedProcess:
    """What :class:`~srm_common.testing.java.LocalProcess` offers, of a process that the server forked."""

    def __init__(self, order: Order, server: subprocess.Popen[bytes]) -> None:
        self._order = order
        self._server = server
        self.output = Path(order.output)
        self._wait_for(order.pid_file, time.monotonic() + _PATIENCE)
        self.pid = int(order.pid_file.read_text())

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative = ended by that signal."""
        with contextlib.suppress(FileNotFoundError):
            return int(self._order.exit_file.read_text())
        return None

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def wait(self, timeout_seconds: float) -> int:
        """Exit code. Raises LocalKafkaError when it still runs after the timeout; says where its processes stand."""
        try:
            self._wait_for(self._order.exit_file, time.monotonic() + timeout_seconds)
        except LocalKafkaError as error:
            raise LocalKafkaError(f"{error}\n{self._stacks()}") from error
        return int(self._order.exit_file.read_text())

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.wait(_PATIENCE)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def _stacks(self) -> str:
        """What each of its processes does, in all threads."""
        before = self.output.stat().st_size
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGUSR1)
            time.sleep(2.0)
        states = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, ProcessLookupError):
                if os.getpgid(int(folder.name)) == self.pid:
                    status = (folder / "status").read_text().splitlines()
                    states.append(" ".join(line for line in status if line.startswith(("Name:", "Pid:", "State:"))))
        return "\n".join([*states, self.output.read_bytes()[before:].decode(errors="replace")])

    def _wait_for(self, path: Path, deadline: float) -> None:
        while not path.exists():
            if time.monotonic() > deadline or self._server.poll() is not None:
                raise LocalKafkaError(f"there is no {path}; see {self.output}")
            time.sleep(0.01)


class ForkServer:
    """A server that is started with its first run. A context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            # The end of its input is what it ends for; its runs end with it.
            self._process.communicate(timeout=_PATIENCE)

    def start(self, module: str, arguments: Sequence[str], output: Path) -> ForkedProcess:
        """A process that calls ``main(*arguments)`` of a module and ends with what that returns."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.fork_server"],
                stdin=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        order = Order(module, tuple(arguments), str(output))
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._process.stdin.flush()
        return ForkedProcess(order, self._process)


def _serve() -> Callable[[], int]:
    """Returns in each forked run with what it has to do, and in the server when there are no more orders."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the attendants
    for line in iter(sys.stdin.readline, ""):
        order = Order(**json.loads(line))
        main: Callable[..., int] = importlib.import_module(order.module).main
        threads = os.listdir("/proc/self/task")
        assert len(threads) == 1, "a process with several threads cannot be forked safely"
        if os.fork() == 0 and _attend(order):
            return lambda: main(*order.arguments)
    return lambda: 0


def _attend(order: Order) -> bool:
    """In a process that waits for one run's end: forks it. True in the run; does not return in the other."""
    _end_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _end_with_parent()
        os.setsid()
        _redirect(order)
        _put(order.pid_file, os.getpid())
        return True
    _, status = os.waitpid(pid, 0)
    _put(order.exit_file, os.waitstatus_to_exitcode(status))
    os._exit(0)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _redirect(order: Order) -> None:
    output = Path(order.output)
    folder = temporary_folder(output)
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for file, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(file, standard)
    faulthandler.register(signal.SIGUSR1)


def _put(path: Path, number: int) -> None:
    """Whoever sees the file sees the number."""
    unfinished = path.with_suffix(f"{path.suffix}.part")
    unfinished.write_text(str(number))
    unfinished.rename(path)


if __name__ == "__main__":
    sys.exit(_serve()())
