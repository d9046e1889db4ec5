"""A run of a scenario's flow: its driver, as a process, and all that the driver starts."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_record import RunRecord
from tests.faults.copier import WORKER
from tests.faults.fork_server import ForkServer
from tests.faults.spark_copier import MASTER_FILE
from tests.spark.standalone import StandaloneSpark

#: What must come comes, however slow the machine is: waiting for it costs nothing where it comes soon.
PATIENCE = 300.0
#: The daemons that fork Python workers: ours, of a driver's own JVM, and Spark's.
_DAEMONS = ("spark_daemon", "pyspark.daemon")
_DRIVER_PORT = re.compile(r"--driver-url \S+@[^ :]+:(\d+)")


class Run:
    """A run of the flow: the driver's process, leader of a process group that holds its workers too."""

    def __init__(
        self,
        fork_server: ForkServer,
        flow: FlowSettings,
        folder: Path,
        max_seconds: float,
        module: str,
        spark: StandaloneSpark | None = None,
    ) -> None:
        self._seen: dict[tuple[int, float], psutil.Process] = {}
        self._spark = spark
        #: Where its driver listens, which executors are told.
        self._ports: set[int] = set()
        folder.mkdir(parents=True)
        flow_file, self._report = folder / "flow.pickle", folder / "report.json"
        flow_file.write_bytes(pickle.dumps(flow))
        if spark is not None:
            (folder / MASTER_FILE).write_text(spark.master)
        self.process = fork_server.start(module, (str(flow_file), str(max_seconds), str(self._report)), folder / "log")

    def outcome(self) -> str:
        """What the run reported."""
        return self._report.read_text()[:2000] if self._report.exists() else "no report"

    def record(self) -> RunRecord:
        """The run record of an ended run."""
        return RunRecord.from_json(json.loads(self._report.read_text())["record"])

    def processes(self) -> list[psutil.Process]:
        """The driver and all that came of it, as far as it was ever seen here; the driver first."""
        with suppress(psutil.NoSuchProcess):
            driver = psutil.Process(self.process.pid)
            for one in [driver, *driver.children(recursive=True)]:
                self._seen.setdefault((one.pid, one.create_time()), one)
        for folder in Path("/proc").iterdir():
            # Orphans of the driver's group, whoever adopted them.
            if folder.name.isdigit() and int(folder.name) != self.process.pid:
                with suppress(OSError, psutil.NoSuchProcess):
                    if os.getpgid(int(folder.name)) == self.process.pid:
                        one = psutil.Process(int(folder.name))
                        self._seen.setdefault((one.pid, one.create_time()), one)
        for executor in self._executors():
            with suppress(psutil.NoSuchProcess):
                for one in [executor, *executor.children(recursive=True)]:
                    self._seen.setdefault((one.pid, one.create_time()), one)
        return [process for process in self._seen.values() if process.is_running()]

    def _executors(self) -> list[psutil.Process]:
        """JVMs of the run's executors on a standalone cluster: those that were told a port of one of its processes."""
        if self._spark is None:
            return []
        for process in self._seen.values():
            with suppress(psutil.Error):
                self._ports |= {each.laddr.port for each in process.net_connections("tcp") if each.status == "LISTEN"}
        return [
            executor
            for executor in self._spark.executors()
            if (found := _DRIVER_PORT.search(" ".join(_command(executor)))) and int(found[1]) in self._ports
        ]

    def executor(self, dice: random.Random) -> psutil.Process:
        """The JVM of one of its executors; Spark starts another one for each that is lost."""
        self.processes()
        deadline = time.monotonic() + PATIENCE
        while not (process := self._executors()):
            assert self.process.running, f"the run ended: {self.outcome()}; {self.process.tail()}"
            assert time.monotonic() < deadline, f"it has no executors; {self.process.tail()}"
            time.sleep(0.05)
        return dice.choice(process)

    def signal_all(self, number: int) -> None:
        """A signal to the driver and all its processes."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def signal_driver(self, number: int) -> None:
        """A signal to the driver alone."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def jvm(self) -> psutil.Process:
        """Spark's JVM."""
        return next(
            process for process in self.processes() if _command(process)[:1] and _command(process)[0].endswith("java")
        )

    def workers(self) -> list[int]:
        """Process ids of those that copy: forked by Spark's Python daemon, or by the driver itself."""
        found = []
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                parent = process.parent()
                if process.name() == WORKER or (_is_daemon(process) and parent and _is_daemon(parent)):
                    found.append(process.pid)
        return sorted(found)

    def kill_a_worker(self, dice: random.Random) -> None:
        """SIGKILL to one of the workers. Between two passes there may be none for a moment, or one may just end."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(ProcessLookupError, IndexError):
                os.kill(dice.choice(self.workers()), signal.SIGKILL)
                return
            assert self.process.running, f"the run ended: {self.outcome()}; {self.process.tail()}"
            assert time.monotonic() < deadline, f"it has no workers; {self.process.tail()}"
            time.sleep(0.05)

    def kill_driver(self) -> None:
        """SIGKILL to the driver; its workers stay."""
        self.processes()
        self.process.kill()

    def kill_all(self) -> None:
        """SIGKILL to the driver and all its processes."""
        self.signal_all(signal.SIGKILL)
        self.process.kill()
        # What was forked meanwhile.
        self.signal_all(signal.SIGKILL)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _is_daemon(process: psutil.Process) -> bool:
    """Whether it is the daemon that forks an executor's workers, or one of these."""
    command = " ".join(_command(process))
    return any(name in command for name in _DAEMONS)
