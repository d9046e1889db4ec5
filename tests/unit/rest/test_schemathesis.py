"""Whatever the API's description allows, and what it does not, gets an answer that the description knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import APIRouter, FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema

from srm_common.rest.app import ROUTERS, House, create_app
from srm_common.rest.live import TAG
from srm_common.rest.serving.watched_configuration import WatchedConfiguration
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from tests.unit.rest.airflow_stand_in import MemoryScheduler
from tests.unit.rest.conftest import NAMES, configuration_text
from tests.unit.rest.people import HEADER, HeaderAccess

EXAMPLES = 10


def described(routers: Sequence[APIRouter]) -> dict[str, Any]:
    app = FastAPI()
    for router in routers:
        app.include_router(router)
    return dict(app.openapi()["paths"])


@pytest.fixture(scope="session")
def description(history: Path, tmp_path_factory: pytest.TempPathFactory) -> OpenApiSchema:
    """Without the routes that ask clusters: there are none here."""
    file = tmp_path_factory.mktemp("described") / "srm.properties"
    file.write_text(configuration_text())
    house = House(
        HeaderAccess(),
        MetricsStore(f"sqlite:///{history}"),
        MemoryScheduler(*NAMES),
        WatchedConfiguration(lambda: file, load=lambda path: load_configuration(path, connections=None)),
    )
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(house))


OPERATIONS = [
    (path, method)
    for path, methods in described(ROUTERS).items()
    for method, operation in methods.items()
    if TAG not in operation["tags"]
]


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_described(description: OpenApiSchema, path: str, method: str, mode: GenerationMode) -> None:
    operation = description[path][method.upper()]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def answered(case: schemathesis.Case[Any]) -> None:
        # What is refused for how parameters go together, such as an end before a start, no description can say.
        case.call_and_validate(headers={HEADER: "op"}, excluded_checks=[positive_data_acceptance])

    try:
        answered()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "an operation without parameters takes everything"
