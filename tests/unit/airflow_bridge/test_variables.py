"""Where tasks keep what they remember, in an Airflow with states of assets and in one without.

Airflow is imported by the tests, not by this file: it takes more than a second, and each process of the ring imports
all files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srm_common.domain.flow import FlowName


def test_airflows_own_place_is_left_alone() -> None:
    from srm_common.airflow_bridge.variables import ensure_asset_state

    states = object()
    context: Any = {"asset_state_store": states}
    ensure_asset_state(context)
    assert context["asset_state_store"] is states


def test_without_one_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk import Asset

    from srm_common.airflow_bridge.variables import ensure_asset_state

    # As Airflow has variables from its environment; a flow in a scheduler of such an Airflow is in make compat.
    monkeypatch.setenv("AIRFLOW_VAR_SRM_STATE__SRM.A.B__STATUS", '{"state": "running"}')
    context: Any = {}
    ensure_asset_state(context)
    asset = Asset(name="srm.a.b", uri="srm://a/b", group="srm")
    assert context["asset_state_store"][asset].get("status") == {"state": "running"}


FLOW = FlowName("us-east", "b")
DENIED = "denied"


class Supervisor:
    """Answers a task for Airflow's API server, which says of a variable that it cannot read that there is none.

    Args:
        answers: to GetVariable, in their order; None: not found, DENIED: refused. The last one is repeated.
        keys: the variables of the database; None: an error of ``status`` instead, 404 in Airflow 3.2.
    """

    def __init__(self, *answers: str | None, keys: list[str] | None = None, status: int = 500) -> None:
        self.answers = list(answers)
        self.keys, self.status = keys, status
        self.set: list[str] = []

    def send(self, message: Any) -> Any:
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time.comms import ErrorResponse, VariableKeysResult, VariableResult

        match type(message).__name__:
            case "GetVariable":
                found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if found == DENIED:
                    return ErrorResponse(error=ErrorType.PERMISSION_DENIED, detail={"status_code": 403})
                if found is not None:
                    return VariableResult(key=message.key, value=found)
                return ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND, detail={"status_code": 404})
            case "GetVariableKeys" if self.keys is not None:
                return VariableKeysResult(keys=self.keys, total_entries=len(self.keys))
            case "GetVariableKeys":
                return ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": self.status})
            case "PutVariable":
                self.set.append(message.value)
                self.answers = [message.value]
        return None


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Supervisor]:
    def make(*answers: str | None, keys: list[str] | None = None, status: int = 500) -> Supervisor:
        from airflow.sdk.execution_time import task_runner

        from srm_common.airflow_bridge import variables

        supervisor = Supervisor(*answers, keys=keys, status=status)
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
        monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
        monkeypatch.setattr(variables, "_PAUSE_SECONDS", 0.0)
        return supervisor

    return make


def test_a_variable_that_is_not_found_is_looked_for_in_the_list_of_the_database(
    supervised: Callable[..., Supervisor],
) -> None:
    from srm_common.airflow_bridge.variables import edited_lists

    def unread() -> str | None:
        found = edited_lists(FLOW, [FLOW])
        assert found.text is None
        return found.unread

    supervised(None, keys=["srm_filters__us-east__b2"])
    assert unread() is None
    supervised(None, keys=["srm_filters__us-east__b"])
    assert unread() == (
        "Airflow has the variable srm_filters__us-east__b but did not return its value, and the log of its API server "
        "says why"
    )
    supervised(None)
    assert "Airflow does not say whether it has the variable srm_filters__us-east__b: API_SERVER_ERROR" in str(unread())
    supervised(None, status=404)
    assert unread() is None, "Airflow 3.2 cannot be asked"
    supervised(DENIED)
    assert "Access denied for variable 'srm_filters__us-east__b'" in str(unread())
    supervised(None, "{}", keys=[])
    assert edited_lists(FLOW, [FLOW]).text == "{}", "the second of its names"


def test_the_name_of_the_installation_is_not_replaced_by_a_run_that_cannot_read_it(
    supervised: Callable[..., Supervisor],
) -> None:
    from srm_common.airflow_bridge.variables import installation_id

    named = supervised("named")
    assert (installation_id(), named.set) == ("named", [])
    new = supervised(None, keys=[])
    assert [installation_id()] == new.set
    for keys in (None, ["srm_installation"]):
        unread = supervised(None, keys=keys)
        assert (installation_id(), unread.set) == (None, [])
    for status in (500, 404):
        late = supervised(None, None, "named", keys=["srm_installation"] if status == 500 else None, status=status)
        assert (installation_id(), late.set) == ("named", []), "it is looked up again"
    without_lists = supervised(None, status=404)
    assert [installation_id()] == without_lists.set, "Airflow 3.2"
