"""What a task sees of another DAG while Airflow's API server comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from srm_common.airflow_bridge.moves import flow_schedule
from srm_common.airflow_bridge.moves.flow_schedule import FlowSchedule
from srm_common.airflow_rest import AirflowRest
from srm_common.errors import AirflowError
from srm_common.settings_files.connections import airflow_connections

#: Before the tests replace it.
AIRFLOW_ITSELF = flow_schedule.airflow_itself

pytestmark = pytest.mark.airflow

#: What the supervisor answers when the API server does not respond, and what it answers for a DAG that is not there.
SILENT: dict[str, Any] = {"status_code": None, "message": "Connection refused", "exception_type": "ConnectError"}
MISSING: dict[str, Any] = {"status_code": 404, "message": "Not Found"}


class Task:
    """Answers with each of ``found`` in turn, then with the last one."""

    def __init__(self, *found: bool | str | dict[str, Any]) -> None:
        self._last = found[-1]
        self._found: Iterator[bool | str | dict[str, Any]] = iter(found)

    def _next(self) -> Any:
        found = next(self._found, self._last)
        if isinstance(found, dict):
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=found))
        return found

    def get_dag(self, dag_id: str) -> Any:
        return SimpleNamespace(is_paused=self._next())

    def get_dr_count(self, dag_id: str, states: list[str]) -> Any:
        return self._next()

    def get_dagrun_state(self, dag_id: str, run_id: str) -> Any:
        return self._next()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No API server is there, and looks follow one another."""
    monkeypatch.setattr(flow_schedule, "airflow_itself", lambda: AirflowRest("http://127.0.0.1:1"))
    monkeypatch.setattr(flow_schedule, "_LOOK_SECONDS", 0.0)


def schedule(*found: bool | str | dict[str, Any]) -> FlowSchedule:
    task: Any = Task(*found)
    return FlowSchedule("srm.a.b", task)


def test_a_dag_that_is_not_there_is_not_one_that_cannot_be_asked_about() -> None:
    with pytest.raises(AirflowError, match=r"this Airflow has no DAG srm\.a\.b"):
        schedule(MISSING).is_paused()
    with pytest.raises(AirflowError, match=r"does not say how srm\.a\.b is doing: .*Connection refused"):
        schedule(SILENT).is_paused()
    with pytest.raises(AirflowError, match="Connection refused"):
        schedule(SILENT).end_runs("why")


def test_a_person_is_waited_for_while_the_server_restarts() -> None:
    assert schedule(False, False, SILENT, False, SILENT, True, False).pause("why") == ["paused srm.a.b"]
    with pytest.raises(AirflowError, match=r"this Airflow has no DAG srm\.a\.b"):
        schedule(False, False, MISSING).pause("why")


def test_a_run_is_waited_for_while_the_server_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time import task_runner

    sent: list[Any] = []
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=sent.append), raising=False)
    assert schedule("queued", SILENT, "running", SILENT, "success").run_once("r", {}, "note") == "success"
    assert [one.run_id for one in sent] == ["r"]
    with pytest.raises(AirflowError, match=r"waited 0 s for run r of srm\.a\.b to end"):
        schedule(SILENT).run_once("r", {}, "note", seconds=0.0)


@pytest.mark.parametrize(
    ("execution", "base", "host", "address"),
    [
        ("http://api-server:8080/execution/", "https://airflow.example", None, "http://api-server:8080"),
        ("http://api:1/prefix/execution", "", None, "http://api:1/prefix"),
        ("", "https://airflow.example/prefix", None, "https://airflow.example/prefix"),
        ("", "/prefix", None, "http://localhost:8080/prefix"),
        ("http://api-server:8080/execution/", "", "https://own.example", "https://own.example"),
        ("http://api-server:8080/execution/", "", "own", "http://own:81"),
    ],
)
def test_tasks_find_the_api_server_where_their_supervisors_do(
    monkeypatch: pytest.MonkeyPatch, execution: str, base: str, host: str | None, address: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", execution)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    connection = SimpleNamespace(host=host, port=81 if host else None, schema=None, login="mover", password="x")
    monkeypatch.setattr(BaseHook, "get_connection", lambda name: connection)
    assert AIRFLOW_ITSELF().url == address


@pytest.mark.parametrize("known", [True, False])
def test_that_a_person_will_have_to_pause_is_said_beforehand(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    asked: list[str] = []

    def get_connection(name: str) -> Any:
        asked.append(name)
        # Airflow says so, too, while its database or secrets backend does not answer.
        if not known or len(asked) < 3:
            raise AirflowNotFoundException(name)
        return SimpleNamespace(host="http://127.0.0.1:1", port=None, schema=None, login="mover", password="x")

    monkeypatch.setattr(airflow_connections, "_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(airflow_connections, "_in_vain", set())
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:1/execution/")
    monkeypatch.setattr(BaseHook, "get_connection", get_connection)
    monkeypatch.setattr(flow_schedule, "airflow_itself", AIRFLOW_ITSELF)
    there = schedule(False)
    assert there._rest.user == ("mover" if known else None)
    said = str(there.why_not_steered())
    assert "will wait for a person to do it on the DAG's page: Airflow at http://127.0.0.1:1 did not respond" in said
    assert said.endswith("; set its host in the Airflow connection 'srm_airflow'"), "no variable of srm-control"
