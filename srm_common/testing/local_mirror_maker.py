"""The real MirrorMaker 2 as one process, for comparison, take-over and hand-back."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from srm_common.errors import LocalKafkaError
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION, mirror_maker_jars
from srm_common.testing.brokers.logging_settings import logging_options
from srm_common.testing.brokers.node import TunedFor
from srm_common.testing.java import JavaProcess
from srm_common.testing.local_server import LocalServer

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
JVM_OPTIONS: Mapping[TunedFor, tuple[str, ...]] = {
    # It lives for seconds only: two fifths less CPU than with what Connect's start script sets.
    "tests": ("-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    "throughput": (
        "-Xms256m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    ),
}  # fmt: skip


class LocalMirrorMaker(LocalServer):
    """MirrorMaker 2 in dedicated mode, as ``connect-mirror-maker.sh`` starts it. A context manager.

    ``properties`` is the content of an ``mm2.properties``, or a path to one. It runs in a temporary directory that is
    removed at the end unless something failed; ``directory`` is kept. ``clusters`` are the aliases to run for, as
    ``--clusters`` does. ``tuned_for`` is ``"tests"`` (quick start) or ``"throughput"`` (the JVM options of Connect's
    own start script); ``heap`` is the JVM's largest heap, as for ``-Xmx``.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | Path | str,
        version: str | None = None,
        *,
        directory: Path | str | None = None,
        heap: str = "1g",
        clusters: tuple[str, ...] = (),
        tuned_for: TunedFor = "tests",
    ) -> None:
        self.version = version or DEFAULT_KAFKA_VERSION
        self._properties = properties
        self._heap = heap
        self._clusters = clusters
        self._tuned_for: TunedFor = tuned_for
        self._keep_directory = directory is not None
        self._directory = None if directory is None else Path(directory).absolute()
        self._processes: list[JavaProcess] = []

    @property
    def directory(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="srm-mirror-maker-"))
        return self._directory

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    @property
    def running(self) -> bool:
        return bool(self._processes) and self._processes[-1].running

    @property
    def pid(self) -> int:
        if not self._processes:
            raise LocalKafkaError("MirrorMaker was never started")
        return self._processes[-1].pid

    def start(self) -> Self:
        """Starts the process; it needs some seconds more until connectors run (``wait_for_log``)."""
        if self.running:
            raise LocalKafkaError(f"MirrorMaker is already running as process {self.pid}")
        jars = mirror_maker_jars(self.version)
        self.directory.mkdir(parents=True, exist_ok=True)
        if isinstance(self._properties, Mapping):
            path = self.directory / "mm2.properties"
            path.write_text("".join(f"{key} = {value}\n" for key, value in self._properties.items()))
        else:
            path = Path(self._properties).absolute()
        arguments = [
            f"-Xmx{self._heap}", *JVM_OPTIONS[self._tuned_for], "-Djava.awt.headless=true",
            *logging_options(self.version, self.directory),
            "-cp", f"{jars}/*", MAIN_CLASS, str(path),
        ]  # fmt: skip
        if self._clusters:
            arguments += ["--clusters", *self._clusters]
        self._processes.append(JavaProcess(arguments, output=self.log_path))
        return self

    def wait_for_log(self, pattern: str, timeout_seconds: float = 300.0) -> str:
        """The first log line that matches the regular expression. Raises LocalKafkaError after the timeout."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + timeout_seconds
        while True:
            ended = not self.running
            for line in self.log_path.read_text(errors="replace").splitlines() if self.log_path.exists() else ():
                if wanted.search(line):
                    return line
            if ended or time.monotonic() > deadline:
                what = "ended" if ended else f"said nothing within {timeout_seconds:.0f} s"
                tail = self._processes[-1].tail() if self._processes else ""
                raise LocalKafkaError(f"MirrorMaker {what} before '{pattern}'; {self.log_path} ends with:\n{tail}")
            time.sleep(0.1)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """SIGTERM: tasks commit what they have; SIGKILL after the timeout."""
        if self._processes:
            self._processes[-1].stop(timeout_seconds)

    def kill(self) -> None:
        """SIGKILL."""
        if self._processes:
            self._processes[-1].kill()

    def pause(self) -> None:
        """SIGSTOP."""
        if self._processes:
            self._processes[-1].pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self._processes:
            self._processes[-1].resume()

    def cpu_seconds(self) -> float:
        """User and system time so far, of ended processes too."""
        return sum(process.cpu_seconds() for process in self._processes)

    def peak_rss_bytes(self) -> int:
        """Highest resident memory of any of its processes."""
        return max((process.peak_rss_bytes() for process in self._processes), default=0)

    def close(self, *, failed: bool = False) -> None:
        """Stops, and removes a temporary directory; with ``failed`` it stays and is named."""
        self.stop()
        if self._directory is None or self._keep_directory:
            return
        if failed:
            print(f"MirrorMaker's log is kept in {self._directory}", file=sys.stderr)
        else:
            shutil.rmtree(self._directory, ignore_errors=True)
