"""The API's OpenAPI document: as FastAPI derives it, with this API's errors, logins and examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from srm_common import __version__

TITLE = "Replication flows"
_TEXT = """
Status and control of replication flows.

* Errors have one format, `{"errors": [{"code", "message", ...}]}`; codes are stable. A partial response has its data,
  and an entry in `errors` for each missing part.
* Times are epoch milliseconds, durations milliseconds. Every figure has the time at which it was measured.
* Requests that change something must have a JSON body, and come from pages of this site or from programs.
* Routes tagged *live* query the clusters while the caller waits, for at most 20 s; all others read the history.
  Only lag is current: while it is in use, the clusters are queried in the background, at most every 15 s.
* Version 1 is that of Streams Replication Manager 1.0.
"""
#: Where the API is: beside the document, whatever a proxy puts before both.
_HERE = "."
_LOGINS = {
    "airflow": {
        "type": "http",
        "scheme": "bearer",
        "description": "In Airflow: a token of POST /auth/token. A browser that is logged in needs none.",
    },
    "serve": {"type": "http", "scheme": "basic", "description": "srm-control serve: name and password."},
}
#: Values that look like real ones, by property, or by schema and property where that is not enough.
_EXAMPLES: dict[str, Any] = {
    "flow": "east->west",
    "source": "east",
    "target": "west",
    "alias": "east",
    "dag_id": "srm.east.west",
    "dag_url": "/dags/srm.east.west",
    "url": "/dags/srm.east.west/runs/scheduled__2026-01-01T00:00:00+00:00",
    "run_id": "scheduled__2026-01-01T00:00:00+00:00",
    "topic": "orders",
    "remote_topic": "east.orders",
    "upstreamTopic": "orders",
    "originalTopic": "orders",
    "group": "billing",
    "metric": "replication-records-lag",
    "unit": "records",
    "now_ms": 1767225600000,
    "start_ms": 1767218400000,
    "end_ms": 1767225600000,
    "reported_ms": 1767225590000,
    "latest_ms": 1767225590000,
    "since_ms": 1767225000000,
    "message": "there is no flow east->moon",
    "code": "unknown_flow",
    "cause": "3,200 records behind, 1,100 fewer than at the report before",
    "reason": "included by 'orders.*'",
    "lag": 3200,
    "position": 120400,
    "end": 123600,
    "service": None,
    "HealthModel.state": "catching_up",
    "Run.state": "done",
    "Run.error": None,
    "Topic.error": None,
    "Partition.error": None,
    "MoveState.state": "running",
    "MoveState.kind": "failover",
    "AlarmModel.kind": "lag_objective",
    "AlarmModel.severity": "warning",
    "AlarmModel.text": "east->west is 3,200 records behind; its objective is 1,000",
    "PlannedAction.kind": "create_topic",
    "PlannedAction.sentence": "create topic east.orders on west with 6 partitions",
}


def operation_id(route: APIRoute) -> str:
    """``get_flow``, ``post_run``, ``v1_get_replications``: for generated clients."""
    version = "v1_" if route.path.startswith("/api/v1/") else ""
    return f"{version}{min(route.methods).lower()}_{route.name}"


def describe(app: FastAPI) -> None:
    """Make ``app`` return the whole description as ``openapi.json``."""
    known: dict[str, Any] = {}
    # FastAPI would put the path at which it is mounted before it: that is not all of it behind a proxy.
    app.root_path_in_servers = False

    def openapi() -> dict[str, Any]:
        if not known:
            found = get_openapi(
                title=TITLE, version=__version__, description=_TEXT, routes=app.routes, servers=[{"url": _HERE}]
            )
            known.update(_completed(found))
        return known

    setattr(app, "openapi", openapi)  # noqa: B010  FastAPI's own way to change it; to a type checker it is a method


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    faults = {"application/json": {"schema": {"$ref": "#/components/schemas/Faults"}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            if "422" in operation["responses"]:
                operation["responses"]["422"] = {"description": "Unprocessable Entity", "content": faults}
            if "requestBody" in operation:
                operation["responses"]["400"] = {"description": "Bad Request", "content": faults}
    for name, schema in schemas.items():
        for key, described in schema.get("properties", {}).items():
            for place in (f"{name}.{key}", key):
                if place in _EXAMPLES and "examples" not in described and "$ref" not in described:
                    described["examples"] = [_EXAMPLES[place]]
                    break
    document["components"]["securitySchemes"] = _LOGINS
    document["security"] = [{name: []} for name in _LOGINS]
    return document
