"""Clusters whose topics get ids while flows run: by KIP-516 they have none before the inter-broker protocol is 2.8,
whatever version the brokers are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare
from tests.kafka.records import eventually, mixed_records, produce, read_all
from tests.slot_worker import here

pytestmark = pytest.mark.kafka

PROTOCOL = "inter.broker.protocol.version"


@pytest.fixture
def old() -> Iterator[LocalKafka]:
    with LocalKafka(name="old", version="2.8.2", settings={PROTOCOL: "2.7"}) as kafka:
        yield kafka


def run(flow: FlowSettings, run_id: str) -> RunRecord:
    return replicate(flow, RunOptions(run_id=run_id), here)


def id_of(flow: FlowSettings, side: str, topic: str) -> str:
    """Of a topic of the source, or of its copy at the target."""
    with FlowClusters(flow) as clusters:
        admin, name = {
            "source": (clusters.source.admin, topic),
            "target": (clusters.target.admin, f"{flow.name.source}.{topic}"),
        }[side]
        # A broker that has just started may know no topics.
        found = admin.describe_topics([name]).get(name)
    return NO_TOPIC_ID if found is None else found.topic_id


@pytest.mark.parametrize("upgraded", ["source", pytest.param("target", marks=pytest.mark.soak)])
def test_topics_that_get_ids_are_the_same_topics(
    upgraded: str, old: LocalKafka, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source, target = (old, target_kafka) if upgraded == "source" else (source_kafka, old)
    flow = flow_between(source, target, name)
    source.create_topic(name, 2)
    for partition in range(2):
        produce(source, name, partition, mixed_records(300, partition))
    prepare(flow)
    assert run(flow, "before").records == 600
    assert id_of(flow, upgraded, name) == NO_TOPIC_ID

    old.restart(settings={PROTOCOL: "2.8"})
    eventually(lambda: id_of(flow, upgraded, name) != NO_TOPIC_ID, 60, "the topic gets no id")
    produce(source, name, 0, mixed_records(50, seed=7))
    prepare(flow)
    record = run(flow, "after")
    assert (record.state, record.records, record.notes) == (RunState.DONE, 50, ()), record
    copied = read_all(target, f"{flow.name.source}.{name}")
    assert [len(placed) for placed in copied.values()] == [350, 300]
