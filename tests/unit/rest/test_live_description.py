"""The routes that ask clusters while the caller waits: whatever their description allows, and what it does not, gets an
answer that the description knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from schemathesis import GenerationMode
from schemathesis.specs.openapi.schemas import OpenApiSchema

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from tests.examples import examples
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.kafka.group_commits import commit
from tests.slot_worker import here
from tests.unit.rest.descriptions import LIVE, check, description_of
from tests.unit.rest.people import HeaderAccess

EXAMPLES = examples(10)
NAME = "described-live"


@pytest.fixture(scope="module")
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster) -> FlowSettings:
    """It has copied a topic, and translated where a group of that name stands."""
    flow = flow_between(source_kafka, target_kafka, NAME)
    source_kafka.create_topic(NAME, partitions=2)
    write(source_kafka, NAME, [b"x"] * 20)
    prepare(flow)
    replicate(flow, RunOptions("r1"), here)
    commit(source_kafka, NAME, TopicPartition(NAME, 0, 15))
    sync_checkpoints(flow)
    return flow


@pytest.fixture(scope="module")
def context(flow: FlowSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppContext]:
    """Without an Airflow: lists are edited in Kafka."""
    folder = tmp_path_factory.mktemp("described")
    file = folder / "srm.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties_of(flow).items()))
    store = MetricsStore(f"sqlite:///{folder}/metrics.db")
    yield AppContext(HeaderAccess(), lambda: store, None, WatchedConfiguration(lambda: file))
    store.close()


@pytest.fixture(scope="module")
def description(context: AppContext, flow: FlowSettings) -> OpenApiSchema:
    cluster = ClusterAdmin(flow.source, timeout_seconds=60).cluster_id()
    names = {
        "source": [flow.name.source],
        "target": [flow.name.target],
        "group": [NAME, "nobody"],
        "OffsetsRequest.groups": [NAME],
        "kafkaClusterId": [cluster, flow.name.target],
    }
    return description_of(create_app(context), names)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("path", "method"), LIVE)
def test_every_answer_is_described(description: OpenApiSchema, path: str, method: str, mode: GenerationMode) -> None:
    check(description, path, method, mode, EXAMPLES)
