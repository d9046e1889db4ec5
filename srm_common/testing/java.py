"""Child processes, mainly JVMs: started, measured, paused, ended, and never outliving this one."""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from srm_common.errors import LocalKafkaError

_TICKS = os.sysconf("SC_CLK_TCK")
_STOPPING_SECONDS = 10.0


def java_command() -> list[str]:
    """``java`` of ``$JAVA_HOME``, else of the PATH. Raises LocalKafkaError naming what to install."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    found = found or shutil.which("java")
    if not found:
        raise LocalKafkaError(
            "no java on the PATH; install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
        )
    return [found]


class LocalProcess:
    """A process with its output in a file. ``environment`` is the whole of it.

    It ends with this Python process, however that ends (Linux, ``setpriv`` of util-linux), and is in a session of its
    own, so that Ctrl-C reaches Python first. What it and its children leave in the temporary folder when they are
    killed goes with the folder of ``output``.
    """

    def __init__(self, command: Sequence[str], *, output: Path, environment: Mapping[str, str]) -> None:
        self.output = output
        temporary = temporary_folder(output)
        temporary.mkdir(exist_ok=True)
        command = list(command)
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "KILL", "--", *command]
        self._process = _spawn(command, output, {**environment, "TMPDIR": str(temporary)})
        self.pid = self._process.pid
        self._cpu_seconds = 0.0
        self._peak_rss_bytes = 0
        self._reaping = threading.Lock()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        with self._reaping:
            if self._process.returncode is None:
                self._reap(os.WNOHANG)
            return self._process.returncode

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def terminate(self) -> None:
        """SIGTERM; a paused process is resumed first, else it would never see it."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self._signal(signal.SIGKILL)
        self.wait(120)

    def pause(self) -> None:
        """SIGSTOP, and waits until no thread runs any more, which takes a while on a busy machine (Linux)."""
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + _STOPPING_SECONDS
        while self.running and not _stopped(self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def limit_files(self, most_bytes: int) -> None:
        """No file may grow beyond that any more; writes fail with EFBIG (Linux)."""
        with self._reaping:
            if self._process.returncode is None:
                _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most_bytes, hard))

    def wait(self, timeout_seconds: float) -> int:
        """Exit code. Raises LocalKafkaError when it still runs after the timeout."""
        deadline = time.monotonic() + timeout_seconds
        while (code := self.exit_code) is None:
            if time.monotonic() > deadline:
                raise LocalKafkaError(
                    f"process {self.pid} did not end within {timeout_seconds:.0f} s; see {self.output}"
                )
            time.sleep(0.02)
        return code

    def stop(self, timeout_seconds: float = 20.0) -> int:
        """SIGTERM, and SIGKILL when that was not enough. Returns the exit code."""
        self.terminate()
        deadline = time.monotonic() + timeout_seconds
        while self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.running:
            self.kill()
        return self.wait(120)

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far; the final figure once it has ended."""
        if self.running:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
                self._cpu_seconds = (int(fields[11]) + int(fields[12])) / _TICKS
        return self._cpu_seconds

    def peak_rss_bytes(self) -> int:
        """Highest resident memory so far; after the end, the highest seen when it was asked for or stopped."""
        if self.running:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        self._peak_rss_bytes = max(self._peak_rss_bytes, int(line.split()[1]) * 1024)
        return self._peak_rss_bytes

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        try:
            return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if number in (signal.SIGTERM, signal.SIGKILL):
            self.peak_rss_bytes()
        with self._reaping:  # never signal a process id that was reaped, it may belong to another process by now
            if self._process.returncode is None:
                self._reap(os.WNOHANG)
            if self._process.returncode is None:
                os.kill(self.pid, number)

    def _reap(self, options: int) -> None:
        pid, status, usage = os.wait4(self.pid, options)
        if pid:
            self._cpu_seconds = usage.ru_utime + usage.ru_stime
            self._process.returncode = os.waitstatus_to_exitcode(status)


class JavaProcess(LocalProcess):
    """A JVM. ``environment`` is added to ours."""

    def __init__(self, arguments: Sequence[str], *, output: Path, environment: Mapping[str, str] | None = None) -> None:
        # Java does not look at TMPDIR.
        command = [*java_command(), f"-Djava.io.tmpdir={temporary_folder(output)}", *arguments]
        super().__init__(command, output=output, environment={**os.environ, **(environment or {})})


def _stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped (state ``T`` of proc(5)); without ``/proc``, by assumption."""
    tasks = Path("/proc", str(pid), "task")
    try:
        # The name of a thread, in brackets, may have spaces.
        return all(
            (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
            for task in (tasks.iterdir() if tasks.exists() else ())
        )
    except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
        return False


def temporary_folder(output: Path) -> Path:
    """The temporary folder of a process with this output file."""
    return output.absolute().parent / "tmp"


# The kernel ties the parent-death signal to the thread that started the child, not to the process. All children are
# therefore started by one thread that lives as long as Python does.
_requests: queue.SimpleQueue[tuple[Future[subprocess.Popen[bytes]], list[str], Path, dict[str, str]]] = (
    queue.SimpleQueue()
)
_spawner: threading.Thread | None = None
_spawner_lock = threading.Lock()


def _spawn(command: list[str], output: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    global _spawner
    with _spawner_lock:
        if _spawner is None or not _spawner.is_alive():
            _spawner = threading.Thread(target=_serve, name="java-spawner", daemon=True)
            _spawner.start()
    future: Future[subprocess.Popen[bytes]] = Future()
    _requests.put((future, command, output, environment))
    return future.result()


def _serve() -> None:
    while True:
        future, command, output, environment = _requests.get()
        try:
            with output.open("ab") as log:
                future.set_result(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment,
                        start_new_session=True,
                    )
                )
        except Exception as failure:  # whoever waits gets it, and the next child has a spawner
            future.set_exception(failure)
