"""The caller, by Airflow's authentication.

Airflow mounts apps of plugins without a login of their own, and keeps the modules that know about logins to itself:
they may change. This file, :mod:`srm_common.airflow_bridge.web.permissions` and
:mod:`srm_common.airflow_bridge.web.airflow_scheduler` are the only ones that know them.
"""

from __future__ import annotations

from typing import Any

import anyio.from_thread
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials
from fastapi.security.utils import get_authorization_scheme_param

from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.airflow_bridge.unshared_store import unshared_store
from srm_common.airflow_bridge.web.airflow_scheduler import AirflowScheduler
from srm_common.airflow_bridge.web.permissions import AirflowCaller, ReadableDags, asked
from srm_common.errors import ConfigError, StoreError
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.faults import ApiError
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.rest.ports import Caller
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.rest.serving.watched_store import WatchedStore


class AirflowAccess:
    """Airflow's session cookie, or its token as ``Authorization: Bearer``."""

    def __init__(self) -> None:
        self._dags = ReadableDags()

    def caller(self, request: Request) -> Caller:
        """Called in a worker thread, as FastAPI calls dependencies that are plain functions."""
        scheme, token = get_authorization_scheme_param(request.headers.get("authorization"))
        bearer = HTTPAuthorizationCredentials(scheme=scheme, credentials=token) if token else None
        # A refusal is an answer; anything else that an auth manager raises is its failure.
        user = asked(lambda: _user(request, bearer))
        if isinstance(user, HTTPException):
            # Also a token that is none: who it is from is not known. The page shows the sentence to its reader, whose
            # session ended while the page was open.
            raise ApiError(
                401,
                "login_needed",
                "you are not logged in to Airflow, or your session has ended: log in, then reload the page; "
                f"programs send a token as Authorization: Bearer ({user.detail})",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return AirflowCaller(user, self._dags)


def _user(request: Request, bearer: HTTPAuthorizationCredentials | None) -> Any:
    """The user, or why there is none."""
    try:
        return anyio.from_thread.run(get_user, request, None, bearer)
    except HTTPException as refused:
        return refused


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
