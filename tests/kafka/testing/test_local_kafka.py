"""LocalKafka with real brokers: life of a node, addresses, settings, figures."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from srm_common.errors import LocalKafkaError
from srm_common.testing import LocalKafka
from tests.kafka.records import eventually


def produce(kafka: LocalKafka, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def values(kafka: LocalKafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        found = [message.value() or b"" for message in consumer.consume(count, timeout=120)]
    finally:
        consumer.close()
    return found


def test_topic_is_usable_as_soon_as_it_is_created(source_kafka: LocalKafka, name: str) -> None:
    source_kafka.create_topic(name, partitions=3, config={"retention.ms": "1234567"})
    produce(source_kafka, name, b"hello")

    assert len(source_kafka.admin().list_topics(name, timeout=60).topics[name].partitions) == 3
    assert values(source_kafka, name, 1) == [b"hello"]


def test_a_topic_that_exists_is_refused_by_name(source_kafka: LocalKafka, name: str) -> None:
    source_kafka.create_topic(name)
    with pytest.raises(LocalKafkaError, match=f"topic {name} was not created"):
        source_kafka.create_topic(name)


def test_what_a_client_asks_about_is_made_with_three_partitions_and_told(source_kafka: LocalKafka, name: str) -> None:
    topic = f"{name}-on-demand"
    produce(source_kafka, topic, b"hello")
    assert len(source_kafka.admin().list_topics(topic, timeout=60).topics[topic].partitions) == 3
    # The log that tells of it is written by another thread.
    eventually(lambda: topic in source_kafka.made_on_demand(), 60, "the topic is not told")
    # Its own connection does not ask so.
    absent = source_kafka.admin().list_topics(f"{name}-absent", timeout=60).topics[f"{name}-absent"]
    assert absent.error is not None
    assert f"{name}-absent" not in source_kafka.made_on_demand() | set(source_kafka.admin().list_topics().topics)


def test_new_clusters_have_the_versions_own_features(source_kafka: LocalKafka, name: str) -> None:
    log = source_kafka.log_path().read_text()
    assert "transaction.version" in log  # finalized by the bootstrap checkpoint; without it transactions are version 0


def test_three_nodes_keep_three_copies_and_can_be_killed_paused_and_restarted_on_their_ports() -> None:
    with LocalKafka(nodes=3, settings={"message.max.bytes": "777777"}, name="life") as kafka:
        addresses = kafka.bootstrap_servers
        kafka.create_topic("kept", partitions=2)
        found = kafka.admin().list_topics("kept", timeout=60).topics["kept"].partitions.values()
        assert [len(metadata.replicas) for metadata in found] == [3, 3]
        kept = ConfigResource(ConfigResource.Type.TOPIC, "kept")
        settings = kafka.admin().describe_configs([kept])[kept].result(60)
        assert str(settings["min.insync.replicas"].value) == "2"
        produce(kafka, "kept", b"before")
        used = kafka.cpu_seconds()

        kafka.kill(2)
        assert [kafka.running(node) for node in kafka.nodes] == [True, False, True]
        kafka.restart(2)
        assert kafka.bootstrap_servers == addresses
        assert values(kafka, "kept", 1) == [b"before"]
        assert kafka.cpu_seconds() > used > 0
        assert kafka.peak_rss_bytes() > 100 << 20

        kafka.pause(2)
        lonely = AdminClient({"bootstrap.servers": addresses.split(",")[1], "log_level": 0})
        with pytest.raises(KafkaException):
            lonely.list_topics(timeout=1)
        kafka.resume(2)
        # It may have been away for longer than its session.
        eventually(lambda: len(lonely.list_topics(timeout=60).brokers) == 3, 300, "the node does not come back")

        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        settings = kafka.admin().describe_configs([resource])[resource].result(60)
        assert settings["message.max.bytes"].value == "777777"
        directory = kafka.directory
    assert not directory.exists()


def test_logs_are_kept_and_named_when_something_failed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kafka = LocalKafka(name="doomed", settings={"log.segment.bytes": "nonsense"})
    with pytest.raises(LocalKafkaError, match="ended while starting") as failure, kafka:
        pass
    assert "log.segment.bytes" in str(failure.value)
    assert str(kafka.directory) in capfd.readouterr().err
    assert kafka.log_path().exists()
    assert not (kafka.directory / "node-1" / "data").exists()


def test_brokers_end_with_their_parent_however_it_ends(tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom srm_common.testing import LocalKafka\n"
        "kafka = LocalKafka(name='orphan', directory=os.environ['PLACE']).start()\n"
        "print(kafka.pid(), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PLACE": str(tmp_path), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=300)
    broker = int(done.stdout)
    deadline = time.monotonic() + 180
    while Path(f"/proc/{broker}/cmdline").exists() and Path(f"/proc/{broker}/cmdline").read_bytes():
        assert time.monotonic() < deadline, "the broker outlived its parent"
        time.sleep(0.05)
