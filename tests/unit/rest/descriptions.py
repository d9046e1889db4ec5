"""The API's description, asked of the API itself: whatever it allows, and what it does not, gets an answer it knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import schemathesis
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema

from srm_common.rest.app import ROUTERS
from srm_common.rest.live import TAG
from tests.unit.rest.people import HEADER


def _operations(routers: Sequence[APIRouter]) -> list[tuple[str, str, bool]]:
    """Path, method, and whether clusters are asked for the answer: what ``FastAPI.openapi`` would list, which takes it
    half a second in each process that imports this."""
    return [
        (route.path, method.lower(), TAG in route.tags)
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in sorted(route.methods)
    ]


_OPERATIONS = _operations(ROUTERS)
#: Operations whose answers wait for clusters, and the others: path and method.
LIVE = [(path, method) for path, method, live in _OPERATIONS if live]
RESTING = [(path, method) for path, method, live in _OPERATIONS if not live]


def description_of(app: FastAPI, names: Mapping[str, Sequence[str]]) -> OpenApiSchema:
    """The description that ``app`` gives of itself. Parameters of paths in ``names``, and elements of lists in bodies
    (as ``Schema.property``), take these values only: nearly all names that a generator thinks of are unknown, and
    nothing behind the door would ever be asked. Queries may ask for what is not there: nothing is found then."""
    document = app.openapi()
    document.pop("servers", None)  # there is none: the app is asked within this process
    for name, schema in document["components"]["schemas"].items():
        for key, described in schema.get("properties", {}).items():
            if f"{name}.{key}" in names:
                described["items"] = {"type": "string", "enum": list(names[f"{name}.{key}"])}
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path" and parameter["name"] in names:
                    parameter["schema"] = {"type": "string", "enum": list(names[parameter["name"]])}
    made = schemathesis.openapi.from_dict(document)
    made.app = app
    return made


def check(description: OpenApiSchema, path: str, method: str, mode: GenerationMode, examples: int) -> Counter[int]:
    """Ask ``examples`` times, as an op, always the same; returns how often there was which status.

    Raises:
        AssertionError: an answer has a status or a body that the description does not have, or is a fault of the
            server's, or what the description forbids was taken.
    """
    operation = description[path][method.upper()]
    seen: Counter[int] = Counter()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    def answered(case: schemathesis.Case[Any]) -> None:
        # What is refused for how parameters go together, such as an end before a start, no description can say.
        answer = case.call_and_validate(headers={HEADER: "op"}, excluded_checks=[positive_data_acceptance])
        seen[answer.status_code] += 1

    try:
        answered()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "an operation without parameters takes everything"
    return seen
