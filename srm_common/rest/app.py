"""Builds the web app."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from srm_common import __version__
from srm_common.rest.app_context import AppContext
from srm_common.rest.faults import handle_faults
from srm_common.rest.guards import BodyLimit, RelativeRedirects, SafeHeaders, SameOrigin
from srm_common.rest.openapi import TITLE, describe, operation_id
from srm_common.rest.pages import api_docs, handbook, page
from srm_common.rest.peers.flows import ServedByPeer, pass_on
from srm_common.rest.peers.gateway import Peers
from srm_common.rest.prometheus import metrics
from srm_common.rest.srm import cluster_info, v1
from srm_common.rest.v2 import (
    filters,
    flow_details,
    flows,
    group_offsets,
    health,
    moves,
    series,
    steering,
    transforms,
)

__all__ = ["ROUTERS", "AppContext", "create_app"]

#: Every route of the app, in the order of its description. Each asks for its caller itself
#: (:mod:`srm_common.rest.app_context`); a test walks them.
ROUTERS: tuple[APIRouter, ...] = (
    flows.router,
    flow_details.router,
    series.router,
    filters.router,
    transforms.router,
    group_offsets.router,
    steering.router,
    moves.router,
    health.router,
    cluster_info.router,
    metrics.router,
    v1.router,
    api_docs.router,
    handbook.router,
    page.router,
)


def create_app(context: AppContext) -> FastAPI:
    """The app; it opens nothing before its first request."""
    app = FastAPI(
        title=TITLE, version=__version__, docs_url=None, redoc_url=None, generate_unique_id_function=operation_id
    )
    app.state.context = context
    app.state.peers = Peers(context.configuration)
    handle_faults(app)
    app.add_exception_handler(ServedByPeer, pass_on)
    for router in ROUTERS:
        app.include_router(router)
    describe(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(SameOrigin)
    app.add_middleware(RelativeRedirects)
    app.add_middleware(SafeHeaders)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    return app
