"""The caller, by Airflow's authentication, and the caller's permissions in Airflow.

Airflow mounts apps of plugins without a login of their own, and keeps the modules that know about logins to itself:
they may change. This file and :mod:`srm_common.airflow_bridge.web.airflow_scheduler` are the only ones that know them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import anyio.from_thread
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails, VariableDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials
from fastapi.security.utils import get_authorization_scheme_param

from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.airflow_bridge.unshared_store import unshared_store
from srm_common.airflow_bridge.web.airflow_scheduler import AirflowScheduler
from srm_common.domain.filters.flow_filters import variable_name
from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError, StoreError
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.faults import ApiError
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.rest.ports import Caller, Right
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.rest.serving.watched_store import WatchedStore


@dataclass(frozen=True)
class AirflowCaller:
    """A user of Airflow. Permissions on a flow are those on its DAG and its variable."""

    user: Any

    @property
    def name(self) -> str:
        return str(self.user.get_name())

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        match right:
            case Right.READ:
                return self._dag("GET", flow)
            case Right.TRIGGER:
                # Airflow's own API asks for the one to pause, for the other to start a run.
                return self._dag("PUT", flow) and self._dag("POST", flow, DagAccessEntity.RUN)
            case Right.EDIT:
                key = None if flow is None else variable_name(flow)
                variable = VariableDetails(key=key)
                return self._dag("PUT", flow) and bool(
                    get_auth_manager().is_authorized_variable(method="PUT", details=variable, user=self.user)
                )

    def readable(self, flows: Collection[FlowName]) -> set[FlowName]:
        return {flow for flow in flows if self.may(Right.READ, flow)}

    def _dag(
        self, method: Literal["GET", "POST", "PUT"], flow: FlowName | None, entity: DagAccessEntity | None = None
    ) -> bool:
        dag_id = None if flow is None else flow.dag_id
        team = DagModel.get_team_name(dag_id) if dag_id is not None and conf.getboolean("core", "multi_team") else None
        details = DagDetails(id=dag_id, team_name=team)
        manager = get_auth_manager()
        return bool(manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=self.user))


class AirflowAccess:
    """Airflow's session cookie, or its token as ``Authorization: Bearer``."""

    def caller(self, request: Request) -> Caller:
        """Called in a worker thread, as FastAPI calls dependencies that are plain functions."""
        scheme, token = get_authorization_scheme_param(request.headers.get("authorization"))
        bearer = HTTPAuthorizationCredentials(scheme=scheme, credentials=token) if token else None
        try:
            return AirflowCaller(anyio.from_thread.run(get_user, request, None, bearer))
        except HTTPException as refused:
            # Also a token that is none: who it is from is not known.
            raise ApiError(
                401,
                "login_needed",
                f"this needs a login of Airflow: its cookie, or a token as Authorization: Bearer ({refused.detail})",
                headers={"WWW-Authenticate": "Bearer"},
            ) from None


# The web app inside Airflow's API server: its logins, its DAGs, and the history of metrics beside its home.


def airflow_app() -> tuple[FastAPI, Advertiser]:
    """The app that the plugin mounts. The file may not be there yet, or be wrong: each request reads it again, if it
    has changed, and says what is wrong with it."""
    configuration = WatchedConfiguration(configuration_path)

    def store_notice() -> str | None:
        try:
            return unshared_store(configuration())
        except (ConfigError, StoreError):
            return None  # which is shown instead

    context = AppContext(
        access=AirflowAccess(),
        current_store=WatchedStore(configuration),
        store_notice=store_notice,
        scheduler=AirflowScheduler(),
        configuration=configuration,
    )
    app = create_app(context)
    # Nothing tells a mounted app of the end of its server.
    advertiser = Advertiser(configuration)
    advertiser.start()
    return app, advertiser
