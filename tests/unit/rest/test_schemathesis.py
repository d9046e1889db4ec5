"""Whatever the API's description allows, and what it does not, gets an answer that the description knows. The routes
that ask clusters are tested in ``test_live_description.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from schemathesis import GenerationMode
from schemathesis.specs.openapi.schemas import OpenApiSchema

from srm_common.domain.metrics.stats import TimeRange
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from tests.examples import examples
from tests.unit.rest.airflow_stand_in import MemoryScheduler
from tests.unit.rest.conftest import NAMES, configuration_text
from tests.unit.rest.descriptions import RESTING, check, description_of
from tests.unit.rest.people import HeaderAccess, Person

EXAMPLES = examples(10)


@pytest.fixture(scope="session")
def description(history: Path, tmp_path_factory: pytest.TempPathFactory) -> OpenApiSchema:
    """Of a service that has reports of one flow's topics, as those that a generator thinks of have none."""
    file = tmp_path_factory.mktemp("described") / "srm.properties"
    file.write_text(configuration_text())
    store = MetricsStore(f"sqlite:///{history}")
    flow, scheduler = NAMES[0], MemoryScheduler(*NAMES)
    move = scheduler.trigger("srm.failover", {"flow": str(flow)}, "", Person("op"))
    context = AppContext(
        HeaderAccess(),
        lambda: store,
        scheduler,
        WatchedConfiguration(lambda: file, load=lambda path: load_configuration(path, connections=None)),
    )
    row = store.topics(str(flow), TimeRange(0, now_ms())).rows[0]
    names = {
        "source": [flow.source],
        "cluster": [flow.source],
        "target": [flow.target],
        "topic": [row.topic, row.remote_topic],
        "downstream_topic": [row.remote_topic],
        "run_id": [move.run_id],
    }
    return description_of(create_app(context), names)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("path", "method"), RESTING)
def test_every_answer_is_described(description: OpenApiSchema, path: str, method: str, mode: GenerationMode) -> None:
    check(description, path, method, mode, EXAMPLES)
