"""This project's side: the flow's Spark job, submitted as Airflow's Spark operator submits it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.errors import BenchError
from bench.process_tree import ProcessTree
from bench.sides import Clusters, Flow, flow_properties

_PROJECT = Path(__file__).parent.parent
_END_TIMEOUT_SECONDS = 120.0


def replicator_properties(flow: Flow, source_servers: str, target_servers: str) -> dict[str, str]:
    """The properties file of one flow: the same parallelism and guarantee as the other side's."""
    target = flow.target_alias
    arrow = f"{flow.alias}->{target}"
    properties = {
        **flow_properties(flow, source_servers, target_servers),
        f"{target}.exactly.once.source.support": "enabled" if flow.exactly_once else "disabled",
    }
    properties |= {f"{arrow}.{key}": value for key, value in (flow.ours or flow.transforms).items()}
    if flow.run_seconds:
        properties["run.max.seconds"] = f"{flow.run_seconds:g}"
    return properties


def replicator_command(flow: Flow, configuration: Path) -> list[str]:
    """Refreshes the topics and runs one pass, all below one process."""
    return [
        sys.executable,
        "-m",
        "bench.flow_run",
        "--flow",
        f"{flow.alias}->{flow.target_alias}",
        "--config",
        str(configuration),
        "--run-id",
        f"bench-{flow.alias}",
    ]


class ReplicatorSide:
    """One run of the flow, from spark-submit to its exit."""

    name = "srm"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: ProcessTree | None = None
        self._folder = Path()

    def start(self, clusters: Clusters, flow: Flow, folder: Path) -> None:
        self._folder = folder
        configuration = folder / "srm.properties"
        properties = replicator_properties(flow, clusters.source.bootstrap_servers, clusters.target.bootstrap_servers)
        configuration.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        command = replicator_command(flow, configuration)
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).parent / "launch.py"), str(folder / "usage.json")]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*launcher, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=_PROJECT
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the replicator was not started")
        return self._process

    def tree(self) -> ProcessTree:
        self._tree = ProcessTree(self.process.pid, without_root=True)
        return self._tree

    def running(self) -> bool:
        return self.process.poll() is None

    def log_tail(self) -> str:
        return "\n".join((self._folder / "log").read_text(errors="replace").splitlines()[-30:])

    def finish(self) -> float:
        try:
            self.process.wait(_END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as failure:
            raise BenchError(
                f"srm copied everything but did not end within {_END_TIMEOUT_SECONDS:.0f} s:\n{self.log_tail()}"
            ) from failure
        usage = json.loads((self._folder / "usage.json").read_text())
        if usage["exit_code"] != 0:
            raise BenchError(f"srm ended with exit code {usage['exit_code']}; its log ends with:\n{self.log_tail()}")
        uncharged = self._tree.uncharged_seconds(usage["reaped"]) if self._tree else 0.0
        return float(usage["cpu_seconds"]) + uncharged

    def abandon(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()  # the launcher passes it on to the whole group
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
