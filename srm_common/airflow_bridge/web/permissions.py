"""The caller's permissions in Airflow, by its auth manager, which may be another server (Keycloak, AWS) or a database.

Answers about reading are kept for :data:`KEPT_SECONDS`: a page asks with each of its requests, every ten seconds, and
some auth managers answer about one DAG at a time. The permission to change something is asked for each time.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails, VariableDetails
from airflow.configuration import conf
from airflow.models.dag import DagModel

from srm_common.airflow_bridge.web.kept_answers import KeptAnswers
from srm_common.domain.filters.flow_filters import variable_name
from srm_common.domain.flow import FlowName
from srm_common.errors import AirflowError
from srm_common.rest.ports import Right

_LOG = logging.getLogger(__name__)

#: How long a right to read that was revoked may still be used (docs/security.md).
KEPT_SECONDS = 30.0
#: Of all callers; one with 500 flows takes 60 KB.
_MOST = 200

Answer = TypeVar("Answer")


class ReadableDags:
    """DAGs that callers may read, as the auth manager answered lately. None among them stands for any DAG at all."""

    def __init__(self) -> None:
        self._kept: KeptAnswers[frozenset[str | None]] = KeptAnswers(KEPT_SECONDS, _MOST)

    def of(self, user: Any, user_key: str, dag_ids: frozenset[str | None]) -> frozenset[str | None]:
        """Those of ``dag_ids`` that ``user`` may read.

        Args:
            user_key: what tells the user, with all that the login says of them, from any other.

        Raises:
            AirflowError: the auth manager does not say.
        """
        return self._kept.get((user_key, dag_ids), lambda: asked(lambda: _readable(user, dag_ids)))


@dataclass(frozen=True)
class AirflowCaller:
    """A user of Airflow. Permissions on a flow are those on its DAG and its variable.

    All methods raise :class:`AirflowError` if the auth manager does not respond, or fails."""

    user: Any
    dags: ReadableDags

    @property
    def name(self) -> str:
        return str(self.user.get_name())

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        match right:
            case Right.READ:
                dag_id = None if flow is None else flow.dag_id
                return dag_id in self._readable(frozenset([dag_id]))
            case Right.TRIGGER:
                # Airflow's own API asks for the one to pause, for the other to start a run.
                return self._dag("PUT", flow) and self._dag("POST", flow, DagAccessEntity.RUN)
            case Right.EDIT:
                key = None if flow is None else variable_name(flow)
                variable = VariableDetails(key=key)
                return self._dag("PUT", flow) and asked(
                    lambda: bool(
                        get_auth_manager().is_authorized_variable(method="PUT", details=variable, user=self.user)
                    )
                )

    def readable(self, flows: Collection[FlowName]) -> set[FlowName]:
        found = self._readable(frozenset(flow.dag_id for flow in flows)) if flows else frozenset()
        return {flow for flow in flows if flow.dag_id in found}

    def _readable(self, dag_ids: frozenset[str | None]) -> frozenset[str | None]:
        return self.dags.of(self.user, self._key, dag_ids)

    @cached_property
    def _key(self) -> str:
        """Of all that a login carries: roles or groups of the same user may differ from one login to the next. It
        may include a token of the auth manager's, so only its hash is kept."""
        manager = get_auth_manager()
        login = asked(lambda: json.dumps(manager.serialize_user(self.user), sort_keys=True, default=repr))
        kinds = f"{type(manager).__qualname__}\n{type(self.user).__qualname__}\n"
        return hashlib.sha256((kinds + login).encode()).hexdigest()

    def _dag(
        self, method: Literal["POST", "PUT"], flow: FlowName | None, entity: DagAccessEntity | None = None
    ) -> bool:
        return asked(lambda: _allowed(self.user, method, None if flow is None else flow.dag_id, entity))


def asked(ask: Callable[[], Answer]) -> Answer:
    """What ``ask`` returns. Raises :class:`AirflowError` for whatever it raises: auth managers are other people's code,
    and so are the libraries by which they reach their servers; what those say is for the log alone."""
    try:
        return ask()
    except Exception as error:
        _LOG.warning("Airflow's auth manager failed", exc_info=error)
        raise AirflowError(
            "Airflow's auth manager does not respond, or fails, so that permissions are unknown; "
            "the log of Airflow's API server says why"
        ) from error


def _readable(user: Any, dag_ids: frozenset[str | None]) -> frozenset[str | None]:
    named = sorted(dag_id for dag_id in dag_ids if dag_id is not None)
    readable: set[str | None] = {None} if None in dag_ids and _allowed(user, "GET", None) else set()
    for team, of_team in _by_team(named).items():
        # One question for all of them, if the auth manager has it so; otherwise one for each.
        readable |= get_auth_manager().filter_authorized_dag_ids(
            dag_ids=of_team, user=user, method="GET", team_name=team
        )
    return frozenset(readable)


def _allowed(
    user: Any,
    method: Literal["GET", "POST", "PUT"],
    dag_id: str | None,
    entity: DagAccessEntity | None = None,
) -> bool:
    team = DagModel.get_team_name(dag_id) if dag_id is not None and _teams() else None
    details = DagDetails(id=dag_id, team_name=team)
    return bool(get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user))


def _by_team(dag_ids: list[str]) -> dict[str | None, set[str]]:
    """DAGs by the team whose they are, as Airflow asks about them."""
    teams = DagModel.get_dag_id_to_team_name_mapping(dag_ids) if _teams() else {}
    found: dict[str | None, set[str]] = defaultdict(set)
    for dag_id in dag_ids:
        found[teams.get(dag_id)].add(dag_id)
    return found


def _teams() -> bool:
    return bool(conf.getboolean("core", "multi_team"))
