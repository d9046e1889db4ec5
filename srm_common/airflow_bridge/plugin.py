"""What Airflow loads of this project by itself: one web app, mounted under ``/srm`` of the API server.

Every Airflow process imports this file, each task's among them, so it imports nothing itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

URL_PREFIX = "/srm"


class LazyApp:
    """An ASGI app that is built with its first request, in the API server and nowhere else."""

    def __init__(self) -> None:
        self._app: Asgi | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None:
            from srm_common.airflow_bridge.rest import create_app

            self._app = create_app()
        await self._app(scope, receive, send)


class SrmPlugin(AirflowPlugin):
    name = "srm"
    fastapi_apps = [  # noqa: RUF012  Airflow's own base class declares it so
        {"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "Replications"}
    ]
