"""An Airflow on this machine, by its own command: variables and runs. Each question starts a process of 2 or 3 s."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srm_common.errors import AirflowError

HOME = "AIRFLOW_HOME"
_DATABASES = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD")
_TIMEOUT_SECONDS = 120.0
# Airflow logs to standard output, among the answers.
_QUIET = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL", "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"}


class AirflowHome:
    """The Airflow of one folder. Raises :class:`AirflowError` from every method."""

    def __init__(self, folder: Path, executable: str) -> None:
        self.folder = folder
        self._executable = executable

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> AirflowHome | None:
        """The Airflow of ``AIRFLOW_HOME``, None when there is none with a database, or no ``airflow`` to run."""
        home = environment.get(HOME, "").strip()
        if not home or not Path(home).is_dir():
            return None
        set_up = any((Path(home) / name).exists() for name in ("airflow.cfg", "airflow.db"))
        if not set_up and not any(name in environment for name in _DATABASES):
            return None
        beside = Path(sys.executable).with_name("airflow")
        executable = str(beside) if beside.exists() else shutil.which("airflow")
        return None if executable is None else cls(Path(home), executable)

    def variable(self, name: str) -> str | None:
        """The text of a variable as this machine's Airflow sees it (environment, secrets backend, database)."""
        done = self._run("variables", "get", name, fails=True)
        if done.returncode == 0:
            return done.stdout.removesuffix("\n")
        if f"Variable {name} does not exist" in done.stderr + done.stdout:
            return None
        raise self._failure(done)

    def set_variable(self, name: str, text: str, description: str) -> None:
        with tempfile.NamedTemporaryFile("w", prefix="srm-", suffix=".json") as file:
            # A file, since a list may be longer than a command line.
            json.dump({name: {"value": text, "description": description}}, file)
            file.flush()
            self._run("variables", "import", file.name)

    def is_paused(self, dag_id: str) -> bool:
        done = self._run("dags", "details", dag_id, "--output", "json", fails=True)
        if done.returncode != 0 and "does not exist" in done.stderr + done.stdout:
            raise AirflowError(f"the Airflow in {self.folder} has no DAG {dag_id}")
        return str(self._row(done)["is_paused"]) == "True"

    def start_run(self, dag_id: str, note: str) -> str:
        """Ask for a run; returns its id."""
        return str(self._row(self._run("dags", "trigger", dag_id, "--output", "json"))["dag_run_id"])

    def _run(self, *arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, HOME: str(self.folder), **_QUIET}
        try:
            done = subprocess.run(
                [self._executable, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AirflowError(f"the Airflow in {self.folder} cannot be asked: {error}") from error
        if done.returncode != 0 and not fails:
            raise self._failure(done)
        return done

    def _row(self, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        """The one row of an answer in JSON, whatever else is printed before it."""
        start = max(done.stdout.find("[{"), done.stdout.rfind("\n[{") + 1)
        try:
            found: dict[str, Any] = json.loads(done.stdout[start:])[0]
        except (ValueError, LookupError, TypeError):
            raise self._failure(done) from None
        return found

    def _failure(self, done: subprocess.CompletedProcess[str]) -> AirflowError:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        what = " ".join(done.args[1:3])
        return AirflowError(f"airflow {what} in {self.folder} failed: {said[-1].strip() if said else done.returncode}")
