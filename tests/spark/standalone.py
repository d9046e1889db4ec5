"""A standalone Spark master and workers on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pyspark

from srm_common.testing import ReservedPort

SPARK_HOME = Path(pyspark.__file__).parent


def temporary_environment(folder: Path) -> dict[str, str]:
    """Keeps the temporary files of a process, and of the JVMs that it starts, in a folder of a test; these JVMs, which
    live for a minute, compile as little as they can."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    # The one way that reaches executors, too; what they say about it goes to their standard error.
    options = f"-Djava.io.tmpdir={temporary} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return {"TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": options}


class StandaloneSpark:
    """One master, ``workers`` workers of so many ``cores``, each of which an executor may take. A context manager; logs
    and work in ``directory``."""

    def __init__(self, directory: Path, workers: int = 2, cores: int = 1) -> None:
        self.directory = directory
        self._count, self._cores = workers, cores
        self._ports = [ReservedPort() for _ in range(2 + workers)]
        #: Master, workers, and the jobs that tests submit: all end with the block.
        self.processes: list[subprocess.Popen[Any]] = []
        self.master = f"spark://127.0.0.1:{self._ports[0].number}"

    def __enter__(self) -> StandaloneSpark:
        master, page, *pages = (str(port.number) for port in self._ports)
        try:
            self._start("master.Master", "--host", "127.0.0.1", "--port", master, "--webui-port", page)
            self._await(
                lambda log: "I have been elected leader" in log or "Starting Spark master" in log, "master.Master"
            )
            for number, worker_page in enumerate(pages):
                self._start(
                    *("worker.Worker", "--host", "127.0.0.1", "--webui-port", worker_page, "--cores", str(self._cores)),
                    *(
                        "--memory",
                        f"{600 * self._cores}m",
                        "--work-dir",
                        str(self.directory / f"work-{number}"),
                        self.master,
                    ),
                    log=f"worker-{number}",
                )
            for number in range(self._count):
                self._await(lambda log: "Successfully registered with master" in log, f"worker-{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                main = psutil.Process(process.pid)
                for member in [main, *main.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.kill()
            process.wait(300)
        for port in self._ports:
            port.release()

    def logs(self) -> str:
        """Everything that workers' executors wrote to standard error."""
        return "\n".join(path.read_text() for path in sorted(self.directory.rglob("stderr")))

    def work_of_last_application(self) -> list[Path]:
        """Folders of the executors of the newest application."""
        folders = sorted(self.directory.glob("work-*/app-*/*"), key=lambda path: path.parent.name)
        return [folder for folder in folders if folder.parent.name == folders[-1].parent.name]

    def executors(self) -> list[psutil.Process]:
        """Executor JVMs alive now."""
        found = []
        for process in self.processes:
            children: list[psutil.Process] = []
            # They may end while they are looked at.
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(process.pid).children(recursive=True)
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                        found.append(child)
        return found

    def _start(self, role: str, *arguments: str, log: str | None = None) -> None:
        # Workers hand their environment to executors: nothing of this test's own Python must be in it.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_MEMORY": "256m"}
        environment |= temporary_environment(self.directory)
        with (self.directory / f"{log or role}.log").open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{role}", *arguments],
                    env=environment,
                    stdout=output,
                    stderr=output,
                    cwd=self.directory,
                )
            )

    def _await(self, there: Any, log: str) -> None:
        deadline = time.monotonic() + 180
        path = self.directory / f"{log}.log"
        while not there(path.read_text()):
            assert time.monotonic() < deadline, path.read_text()[-3000:]
            time.sleep(0.1)
