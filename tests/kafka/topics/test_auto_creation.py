"""On brokers that create each topic they are asked about, only what is meant to be created comes into being. What
commands ask is in ``tests/unit/usecases/topics/test_auto_creation.py``."""

from __future__ import annotations

import threading
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from tests.faults.live_groups import run_once
from tests.kafka.flows import flow_between, read, write
from tests.kafka.markers import wait_for_markers
from tests.kafka.records import eventually
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


def topics_of(kafka: LocalKafka) -> set[str]:
    """Without the broker's own."""
    return {topic for topic in kafka.admin().list_topics(timeout=60).topics if not topic.startswith("__")}


def test_a_topic_that_a_producer_makes_in_the_midst_of_a_run_is_copied_whole(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source, target = source_kafka, target_kafka
    flow = flow_between(source, target, name)
    new = f"{name}-on-demand"
    source.create_topic(name)
    write(source, name, [b"x"] * 10)
    run_once(flow)
    runs: list[RunRecord] = []
    going = threading.Thread(target=lambda: runs.append(_copied(flow, max_seconds=8)))
    going.start()
    for number in range(60):
        # As producers do that know nothing of partitions.
        producer = Producer({"bootstrap.servers": source.bootstrap_servers, "enable.idempotence": True})
        producer.produce(new, b"%d" % number)
        assert producer.flush(60) == 0
        write(source, name, [b"y"])
    going.join(300)
    (run,) = runs
    assert [record.error for record in run.partitions] == [None] * len(run.partitions)
    wait_for_markers(flow, run_once(flow))
    for topic, partitions in ((name, 1), (new, 3)):
        for partition in range(partitions):
            copied = read(target, f"{flow.name.source}.{topic}", partition)
            assert copied == read(source, topic, partition), topic
    assert new not in topics_of(target)


def _copied(flow: FlowSettings, max_seconds: float) -> RunRecord:
    options = RunOptions(uuid.uuid4().hex, max_seconds=max_seconds)
    return replicate(flow, options, here)


def test_connections_ask_without_creating(source_kafka: LocalKafka, name: str) -> None:
    cluster = flow_between(source_kafka, source_kafka, name).source
    with ClusterLink(cluster) as link:
        _, faults = link.end_offsets([Place(name, 0)], timeout_seconds=2.0)
        assert faults
    assert AdminClient(dict(cluster.confluent)).list_topics(name, timeout=60).topics[name].error is not None
    # The broker creates what it is asked for by others, and had the time for it.
    other = f"{name}-on-demand"
    AdminClient({"bootstrap.servers": source_kafka.bootstrap_servers}).list_topics(other, timeout=60)
    eventually(lambda: other in topics_of(source_kafka), 300, "the broker creates nothing")
    assert name not in topics_of(source_kafka)
