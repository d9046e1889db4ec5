"""What an auth manager is asked, how often, and what becomes of its failures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from srm_common.domain.filters.flow_filters import variable_name
from srm_common.domain.flow import FlowName
from srm_common.errors import AirflowError
from srm_common.rest.ports import Right

if TYPE_CHECKING:
    from srm_common.airflow_bridge.web.permissions import AirflowCaller

pytestmark = pytest.mark.airflow

FLOWS = [FlowName("east", f"west{number}") for number in range(500)]
SECRET = "Bearer hush"


@dataclass(frozen=True)
class User:
    name: str
    role: str = "viewer"

    def get_name(self) -> str:
        return self.name


@dataclass
class AuthManager:
    """One that is another server. ``allowed``: DAGs that may be read, by user; everybody may do anything else."""

    allowed: dict[str, set[str]] = field(default_factory=dict)
    fault: Exception | None = None
    asked: list[Any] = field(default_factory=list)

    def serialize_user(self, user: User) -> dict[str, Any]:
        return {"sub": user.name, "role": user.role}

    def filter_authorized_dag_ids(
        self, *, dag_ids: set[str], user: User, method: str = "GET", team_name: str | None = None
    ) -> set[str]:
        self._note(("filter", method, team_name, frozenset(dag_ids)))
        return dag_ids & self.allowed.get(user.name, set())

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: User) -> bool:
        self._note((method, details.id, details.team_name))
        return True

    def is_authorized_variable(self, *, method: str, details: Any, user: User) -> bool:
        self._note((method, details.key))
        return True

    def _note(self, question: Any) -> None:
        self.asked.append(question)
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> AuthManager:
    from srm_common.airflow_bridge.web import permissions

    found = AuthManager({"ann": {flow.dag_id for flow in FLOWS[:400]}})
    monkeypatch.setattr(permissions, "get_auth_manager", lambda: found)
    return found


Login = Callable[..., "AirflowCaller"]


@pytest.fixture
def login(manager: AuthManager) -> Login:
    """Each request has a caller of its own; what is kept is the app's."""
    from srm_common.airflow_bridge.web.permissions import AirflowCaller, ReadableDags

    dags = ReadableDags()
    return lambda name="ann", role="viewer": AirflowCaller(User(name, role), dags)


def test_all_flows_are_one_question_and_so_are_the_next_requests(manager: AuthManager, login: Login) -> None:
    for _ in range(3):
        assert login().readable(FLOWS) == set(FLOWS[:400])
    assert manager.asked == [("filter", "GET", None, frozenset(flow.dag_id for flow in FLOWS))]
    assert login().readable([]) == set()
    assert len(manager.asked) == 1


def test_what_is_kept_is_nobody_elses(manager: AuthManager, login: Login) -> None:
    assert login("ann").readable(FLOWS)
    assert login("bob").readable(FLOWS) == set()
    # The same user with other roles, which the login carries.
    manager.allowed["ann"] = set()
    assert login("ann", "nobody").readable(FLOWS) == set()
    assert len(manager.asked) == 3


def test_reading_one_flow_is_kept_by_itself(manager: AuthManager, login: Login) -> None:
    first, last = FLOWS[0], FLOWS[-1]
    for _ in range(2):
        assert [login().may(Right.READ, flow) for flow in (first, last)] == [True, False]
        assert login().may(Right.READ)
    assert [question[0] for question in manager.asked] == ["filter", "filter", "GET"]


def test_changes_are_asked_about_each_time(manager: AuthManager, login: Login) -> None:
    flow = FLOWS[0]
    for _ in range(2):
        assert login().may(Right.TRIGGER, flow)
        assert login().may(Right.EDIT, flow)
    dag = ("PUT", flow.dag_id, None)
    assert manager.asked == [dag, ("POST", flow.dag_id, None), dag, ("PUT", variable_name(flow))] * 2


def test_dags_are_asked_about_by_team(manager: AuthManager, login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.dag import DagModel

    teams = {FLOWS[0].dag_id: "red", FLOWS[1].dag_id: "blue"}
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    monkeypatch.setattr(DagModel, "get_dag_id_to_team_name_mapping", lambda dag_ids: teams)
    assert login().readable(FLOWS[:4]) == set(FLOWS[:4])
    asked = {team: dag_ids for _, _, team, dag_ids in manager.asked}
    assert asked == {
        "red": {FLOWS[0].dag_id},
        "blue": {FLOWS[1].dag_id},
        None: {flow.dag_id for flow in FLOWS[2:4]},
    }


@pytest.mark.parametrize("right", list(Right))
def test_a_failure_is_one_sentence_without_what_the_server_said(
    manager: AuthManager, login: Login, right: Right, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk.exceptions import AirflowException

    for fault in (AirflowException(f"Unexpected error: 500 - {SECRET}"), TimeoutError(SECRET), OSError(SECRET)):
        manager.fault = fault
        with caplog.at_level(logging.WARNING), pytest.raises(AirflowError, match="auth manager") as refused:
            login().may(right, FLOWS[0])
        assert SECRET not in str(refused.value)
        assert "Airflow's auth manager failed" in caplog.text
    with pytest.raises(AirflowError, match="auth manager"):
        login().readable(FLOWS)
    manager.fault = None
    assert login().may(right, FLOWS[0]), "a failure is not kept"


def test_airflows_auth_managers_have_what_is_asked_for() -> None:
    """In every supported version, so that there is no other way."""
    import inspect

    from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
    from airflow.models.dag import DagModel

    asked = inspect.signature(BaseAuthManager.filter_authorized_dag_ids).parameters
    assert {"dag_ids", "user", "method", "team_name"} <= set(asked)
    assert callable(BaseAuthManager.serialize_user)
    assert callable(DagModel.get_dag_id_to_team_name_mapping)
