"""What Airflow loads of this project: one web app, mounted under ``/srm`` of the API server, the Replications page in
the menu, and a tab with it on every DAG.

Every Airflow process imports this file, each task's among them, so it imports nothing itself.

Besides, it has the processes that tasks and parses are forked from import what those need
(:mod:`srm_common.airflow_bridge.preload`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from srm_common.rest.peers.advertiser import Advertiser

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

URL_PREFIX = "/srm"
# Relative to the base of Airflow's own page, which is not always the root of the server.
_PAGE = "srm/"
_ICON = "srm/page/icon/icon.svg"


class LazyApp:
    """An ASGI app that is built with its first request, in the API server and nowhere else."""

    def __init__(self) -> None:
        self._app: Asgi | None = None
        self._advertiser: Advertiser | None = None

    def close(self) -> None:
        """Stops the app's background work, which in the API server would continue until the process ends."""
        if self._advertiser is not None:
            self._advertiser.close()
        self._app = self._advertiser = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None:
            from srm_common.airflow_bridge.web.web_app import airflow_app

            self._app, self._advertiser = airflow_app()
        await self._app(scope, receive, send)


class TrailingSlash:
    """Middleware of the whole API server that sends ``/srm`` on to ``/srm/``; Airflow's own page would answer it."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_bare(scope):
            await self._app(scope, receive, send)
            return
        query = scope.get("query_string", b"")
        # Relative: only the browser knows all of the address, as a proxy may have removed or added a part.
        place = f"{URL_PREFIX[1:]}/".encode() + (b"?" + query if query else b"")
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", place)]})
        await send({"type": "http.response.body", "body": b""})

    @staticmethod
    def _is_bare(scope: Message) -> bool:
        path, root = str(scope["path"]), str(scope.get("root_path", ""))
        return path == root + URL_PREFIX or path == URL_PREFIX


class Preloading:
    """A listener to the lives of Airflow's components."""

    @hookimpl
    def on_starting(self, component: object) -> None:
        # A job of scheduler, DAG processor or triggerer; tasks begin, too.
        if hasattr(component, "heartbeat"):
            from srm_common.airflow_bridge.preload import preload

            preload()


class SrmPlugin(AirflowPlugin):
    name = "srm"
    listeners = [Preloading()]  # noqa: RUF012
    fastapi_apps = [  # noqa: RUF012  Airflow's own base class declares it so
        {"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "Replications"}
    ]
    fastapi_root_middlewares = [  # noqa: RUF012
        {"middleware": TrailingSlash, "name": "Replications without a slash"}
    ]
    external_views = [  # noqa: RUF012
        {
            # Airflow's menu cuts what is longer than eleven letters.
            "name": "Replication",
            "href": _PAGE,
            "destination": "nav",
            "url_route": "replications",
            "icon": _ICON,
            "nav_top_level": True,
        },
        {
            "name": "Replication",
            "href": _PAGE + "?dag={DAG_ID}",
            "destination": "dag",
            "url_route": "replication",
            "icon": _ICON,
        },
    ]
