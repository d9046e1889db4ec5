"""What the last task of a move says when another one failed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from srm_common.domain.moving.moves import StepName, StepResult, StepState

pytestmark = pytest.mark.airflow

RUN = "r"
PARAMS = {"flow": "a->b", "mode": "controlled", "groups": None, "dry_run": False, "approved": True, "wait_seconds": 60}


class Task:
    """The running task: ``states`` of the run's tasks (None: Airflow does not say), of which those that succeeded, and
    those in ``returned``, left a result."""

    def __init__(self, states: dict[str, str | None] | None, *, paused: bool = False, failed_step: str = "") -> None:
        self.states, self.paused, self.failed_step = states, paused, failed_step
        self.said: list[str] = []

    def xcom_pull(self, task_ids: str) -> Any:
        if task_ids == self.failed_step:
            return StepResult(StepName(task_ids), StepState.FAILED, ("no",)).to_json()
        done = task_ids == "check" or (self.states or {}).get(task_ids) == "success"
        return StepResult(StepName(task_ids), StepState.DONE, ("fine",)).to_json() if done else None

    def xcom_push(self, key: str, value: Any) -> None:
        self.said += value["sentences"]

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, str | None]]:
        if self.states is None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 500}))
        return {run_id: self.states for run_id in run_ids}

    def get_dag(self, dag_id: str) -> Any:
        return SimpleNamespace(is_paused=self.paused)


@pytest.fixture
def report(
    dags_folder: Path, configuration_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Task], str]:
    clusters = {"clusters": "a, b", "a.bootstrap.servers": "a:1", "b.bootstrap.servers": "b:1"}
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file({**clusters, "a->b.enabled": "true"})))
    monkeypatch.setenv("AIRFLOW_CONN_SRM_AIRFLOW", '{"conn_type": "http"}')
    dags = DagBag(str(dags_folder / "move_groups.py"), load_op_links=False).dags

    def made(kind: str, task: Task) -> str:
        operator: Any = dags[f"srm.{kind}"].get_task("report")
        with pytest.raises(AirflowFailException) as failure:
            operator.execute({"ti": task, "params": PARAMS, "run_id": RUN})
        assert task.said == [str(failure.value)]
        return str(failure.value)

    return made


AFTER = dict.fromkeys(("stop", "drain", "translate", "apply", "verify"), "upstream_failed")
GOES_ON = ". Meanwhile a->b copies on its schedule: last_pass leaves srm.a.b unpaused; pause it if it must not copy"


def test_the_task_that_failed_is_named(report: Callable[[str, Task], str]) -> None:
    last_pass: dict[str, str | None] = {"check": "success", "confirm": "success", "last_pass": "failed", **AFTER}
    said = report("failover", Task(last_pass))
    assert said.startswith("the move is not finished: task 'last_pass' failed, its log says why. Fix that and clear ")
    assert said.endswith(GOES_ON)
    assert GOES_ON not in report("failover", Task(last_pass, paused=True))
    file = Path(os.environ["SRM_CONFIG"])
    enabled = file.read_text()
    file.write_text(enabled.replace("true", "false"))
    assert GOES_ON not in report("failover", Task(last_pass)), "it has no schedule"
    file.write_text(enabled)

    stop: dict[str, str | None] = {**last_pass, "last_pass": "success", "stop": "failed"}
    said = report("failover", Task(stop))
    assert said.startswith("the move is not finished: step 'stop' failed")
    assert said.endswith(GOES_ON)

    drain: dict[str, str | None] = {**stop, "stop": "success", "drain": "failed"}
    said = report("failover", Task(drain, failed_step="drain"))
    assert said.startswith("the move is not finished: step 'drain' failed")
    assert GOES_ON not in said, "stop has paused it"


def test_a_task_behind_the_steps_is_named(report: Callable[[str, Task], str]) -> None:
    steps = ("check", "confirm", "last_pass", "stop", "drain", "translate", "apply", "verify")
    said = report("failback", Task({**dict.fromkeys(steps, "success"), "resume": "failed"}))
    assert said.startswith("the move is not finished: task 'resume' failed")


def test_a_step_that_did_not_run_has_not_failed(report: Callable[[str, Task], str]) -> None:
    states: dict[str, str | None] = {"check": "success", "confirm": "success", "last_pass": "removed", "stop": None}
    assert report("failover", Task(states)).startswith(
        "the move is not finished: step 'stop' did not run (its state is none)."
    )
    # As far as can be told without Airflow.
    assert "step 'check'" not in report("failover", Task(None))
    assert report("failover", Task(None, failed_step="check")).startswith(
        "the move is not finished: step 'check' failed"
    )
