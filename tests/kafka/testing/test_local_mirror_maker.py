"""LocalMirrorMaker copies between two real clusters and can be stopped, measured and read."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from srm_common.errors import LocalKafkaError
from srm_common.testing import LocalKafka, LocalMirrorMaker


def test_it_copies_and_reports_its_use(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    source_kafka.create_topic(name)
    producer = Producer({"bootstrap.servers": source_kafka.bootstrap_servers, "enable.idempotence": True})
    for number in range(100):
        producer.produce(name, str(number).encode())
    assert producer.flush(60) == 0

    source, target = f"s-{name}", f"t-{name}"
    properties = {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": source_kafka.bootstrap_servers,
        f"{target}.bootstrap.servers": target_kafka.bootstrap_servers,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": name,
        f"{target}->{source}.enabled": "false",
        f"{target}->{source}.emit.heartbeats.enabled": "false",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        # Whatever other tests left running on the shared brokers, this flow is this test's alone.
        "dedicated.mode.enable.internal.rest": "false",
    }
    with LocalMirrorMaker(properties) as mirror_maker:
        mirror_maker.wait_for_log("Kafka MirrorMaker started")
        consumer = Consumer(
            {
                "bootstrap.servers": target_kafka.bootstrap_servers,
                "group.id": name,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
                "allow.auto.create.topics": False,
            }
        )
        consumer.subscribe([f"^{source}.{name}$"])
        try:
            values: list[bytes | None] = []
            for _ in range(300):
                values += [m.value() for m in consumer.consume(100, timeout=1.0) if m.error() is None]
                if len(values) == 100:
                    break
        finally:
            consumer.close()
        assert values == [str(number).encode() for number in range(100)]
        assert mirror_maker.peak_rss_bytes() > 100 << 20
        mirror_maker.stop()
        assert not mirror_maker.running
        assert mirror_maker.cpu_seconds() > 1
        directory = mirror_maker.directory
    assert not directory.exists()


def test_one_that_ends_is_reported_with_its_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        pytest.raises(LocalKafkaError, match="MirrorMaker ended before") as failure,
        LocalMirrorMaker({}) as mirror_maker,
    ):
        mirror_maker.wait_for_log("never said")
    assert "clusters" in str(failure.value)
