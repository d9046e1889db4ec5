"""Records in and out of real brokers, and flows between them, for tests."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.actions import failed
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.contract.parts import Cluster
from tests.flow_settings import small_flow
from tests.kafka.markers import wait_until_readable


@dataclass(frozen=True)
class Seen:
    """What a consumer sees of a record, apart from its offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def flow_between(source: Cluster, target: Cluster, name: str, **settings: Any) -> FlowSettings:
    """A flow with state topics of its own that copies the topics whose names begin with ``name``."""
    alias = name.replace("-", "")
    ends = (
        ClusterSettings.plaintext(alias, source.bootstrap_servers),
        ClusterSettings.plaintext("target", target.bootstrap_servers),
    )
    # Brokers make a log for each partition of the state topics: as many as show that keys are spread over them.
    usual = {
        "emit_heartbeats": False,
        "emit_checkpoints_interval_seconds": 0.0,
        "retry_timeout_seconds": 20.0,
        "offsets_partitions": 5,
        "status_partitions": 1,
    }
    return small_flow(*ends, f"{name}.*", **{**usual, **settings})


def prepare(flow: FlowSettings | FlowClusters) -> None:
    """What the task ``refresh_topics`` does."""
    with clusters_of(flow) as clusters:
        assert not failed(apply_plan(clusters, plan_topics(clusters)))


def properties_of(flow: FlowSettings) -> dict[str, object]:
    """A configuration file's content that gives this flow."""
    name = str(flow.name)
    return {
        "clusters": f"{flow.name.source}, {flow.name.target}",
        f"{flow.name.source}.bootstrap.servers": flow.source.bootstrap_servers,
        f"{flow.name.target}.bootstrap.servers": flow.target.bootstrap_servers,
        f"{name}.enabled": "true",
        f"{name}.topics": ", ".join(flow.topics),
        f"{name}.tasks.max": flow.tasks_max,
        f"{name}.replication.factor": -1,
        f"{name}.emit.heartbeats.enabled": "false",
        f"{name}.heartbeats.replication.enabled": "false",
        f"{name}.retry.timeout.seconds": 20,
        f"{name}.offset.storage.partitions": flow.offsets_partitions,
        f"{name}.status.storage.partitions": flow.status_partitions,
        **{
            f"{name}.{kind}.replication.factor": -1
            for kind in ("offset.storage", "status.storage", "config.storage", "checkpoints.topic", "heartbeats.topic")
        },
        f"{name}.offset-syncs.topic.replication.factor": -1,
    }


def write(kafka: Cluster, topic: str, values: Iterable[bytes | None], partition: int = 0, **settings: Any) -> None:
    """Records with keys, headers and times of their own."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            # Else a batch that is sent again may come after later ones. To get a producer id takes half a second.
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    begun = int(time.time() * 1000) - 60_000
    for number, value in enumerate(values):
        producer.produce(
            topic,
            key=None if number % 7 == 3 else b"k%d" % number,
            value=value,
            partition=partition,
            timestamp=begun + number,
            headers=[("n", b"%d" % number), ("n", None)] if number % 5 == 0 else None,
        )
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def read(
    kafka: Cluster, topic: str, partition: int = 0, *, isolation: str = "read_committed", held: bool = False
) -> list[Seen]:
    """All records of a partition, from its start to its end now; ``held``: a transaction is open on purpose."""
    if isolation == "read_committed" and not held:
        wait_until_readable(kafka, topic, [partition])
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    seen: list[Seen] = []
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        consumer.assign([TopicPartition(topic, partition, low)])
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, timeout=0.05):
                error = message.error()
                if error is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    return seen
                seen.append(
                    Seen(
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),  # type: ignore[arg-type]
                        message.timestamp()[1],
                    )
                )
    finally:
        consumer.close()
    raise AssertionError(f"{topic}-{partition} was not read to its end in 180 s")
