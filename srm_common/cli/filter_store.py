"""Where edited filters are stored, depending on the environment: an Airflow through its REST API, an Airflow on this
machine, or ``srm-control.internal`` alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from srm_common.account import whoami
from srm_common.airflow_rest import URL, AirflowRest
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.errors import AirflowError, ConfigError
from srm_common.usecases.filters.edited_filters import FilterPlace, RecordedFilters, VariableFilters
from srm_common.usecases.filters.effective_filters import EffectiveFilters

# An Airflow on this machine, by its own command: variables and runs. Each call starts a process, which takes 2 to 3 s.


HOME = "AIRFLOW_HOME"
_DATABASES = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD")
_TIMEOUT_SECONDS = 120.0
# Airflow logs to standard output, among the answers.
_QUIET = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL", "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"}


#: What the command prints when a variable was not written: why, and how many.
_NOT_IMPORTED = re.compile("^Variable import failed|failed to be updated")


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
            done = self._run("variables", "import", file.name)
        # The exit code is 0 also if the database did not take the variable.
        failed = [line.strip() for line in done.stdout.splitlines() if _NOT_IMPORTED.search(line)]
        if failed:
            raise AirflowError(f"the Airflow in {self.folder} did not write variable {name}: {failed[0]}")

    def is_paused(self, dag_id: str) -> bool:
        done = self._run("dags", "details", dag_id, "--output", "json", fails=True)
        if done.returncode != 0 and "does not exist" in done.stderr + done.stdout:
            raise AirflowError(f"the Airflow in {self.folder} has no DAG {dag_id}")
        return str(self._field(done, "is_paused")) == "True"

    def start_run(self, dag_id: str, note: str) -> str:
        """Ask for a run; returns its id."""
        return str(self._field(self._run("dags", "trigger", dag_id, "--output", "json"), "dag_run_id"))

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
            raise AirflowError(f"the Airflow in {self.folder} cannot be queried: {error}") from error
        if done.returncode != 0 and not fails:
            raise self._failure(done)
        return done

    def _field(self, done: subprocess.CompletedProcess[str], name: str) -> object:
        """Of the single row of a JSON response, whatever else is printed before it."""
        start = max(done.stdout.find("[{"), done.stdout.rfind("\n[{") + 1)
        try:
            found: object = json.loads(done.stdout[start:])[0][name]
        except (ValueError, LookupError, TypeError):
            raise self._failure(done) from None
        return found

    def _failure(self, done: subprocess.CompletedProcess[str]) -> AirflowError:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        what = " ".join(done.args[1:3])
        return AirflowError(f"airflow {what} in {self.folder} failed: {said[-1].strip() if said else done.returncode}")


Store = Literal["auto", "airflow", "kafka"]


class FilterStore(FilterPlace, Protocol):
    """Keeps the edited lists of one flow, and may start its runs."""

    def can_run(self) -> None:
        """Raises :class:`AirflowError` if there is no scheduler to start a run of the flow."""
        ...

    def start_run(self) -> str:
        """Start a run of the flow; says which, and what it waits for."""
        ...


def filter_store(
    flow: FlowSettings,
    flows: Sequence[FlowName],
    choice: Store = "auto",
    *,
    writes_to: ClusterSettings | None = None,
    environment: Mapping[str, str] = os.environ,
) -> FilterStore:
    """The store of a flow whose lists are those of the properties file.

    Args:
        flows: all flows of the file.
        writes_to: the target as the history is written to it, where that needs other client settings.

    Raises:
        ConfigError: an Airflow is required, and none is configured.
    """
    if choice != "kafka":
        airflow = AirflowRest.from_environment(environment) or AirflowHome.from_environment(environment)
        if airflow is not None:
            return AirflowStore(flow, flows, airflow, writes_to)
        if choice == "airflow":
            raise ConfigError(
                f"no Airflow is configured; set {URL}, or AIRFLOW_HOME where Airflow runs on this machine"
            )
    return KafkaStore(flow, writes_to, chosen=choice == "kafka")


class AirflowStore(VariableFilters):
    """The lists are in the flow's Airflow variable."""

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowName],
        airflow: AirflowRest | AirflowHome,
        writes_to: ClusterSettings | None,
    ) -> None:
        where, who = f"in {airflow.folder}" if isinstance(airflow, AirflowHome) else f"at {airflow.url}", whoami()
        if isinstance(airflow, AirflowRest) and airflow.user is not None:
            who += f" as Airflow user {airflow.user}"
        super().__init__(flow, flows, airflow, where=where, who=who, writes_to=writes_to)
        self._dag_id = flow.name.dag_id
        self._airflow = airflow
        self._paused = False

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        if isinstance(self._airflow, AirflowHome) and self.in_environment in os.environ:
            raise ConfigError(
                f"environment variable {self.in_environment} overrides the filters in Airflow; edit it there"
            )
        return super().write(lists, effective, note)

    def can_run(self) -> None:
        self._paused = self._airflow.is_paused(self._dag_id)

    def start_run(self) -> str:
        run_id = self._airflow.start_run(self._dag_id, "srm-control --now")
        waits = "; it waits until the DAG, which is paused, is unpaused" if self._paused else ""
        return f"started run {run_id} of {self._dag_id}{waits}"


class KafkaStore(RecordedFilters):
    """The lists are in ``srm-control.internal`` on the target, and nowhere else.

    Args:
        chosen: this store was chosen explicitly, so an edit is made even if the lists were kept in Airflow before.
    """

    def __init__(self, flow: FlowSettings, writes_to: ClusterSettings | None, *, chosen: bool) -> None:
        hint = (
            f"name that Airflow with {URL}, or use --store kafka to keep them in {CONTROL_TOPIC}, which Airflow uses "
            f"only if it has no variable"
        )
        super().__init__(flow, who=whoami(), hint=None if chosen else hint, writes_to=writes_to)
        self._name = flow.name

    def start_run(self) -> str:
        raise AssertionError("there is no scheduler")

    def can_run(self) -> None:
        raise AirflowError(
            f'there is no Airflow to start a run in; copy now with: srm-control run --flow "{self._name}"'
        )
