"""Sources whose closed segments are in a remote store: read whole, at its speed, and a store that fails is named."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.log.log_windows import LogWindows, Window
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.tiered_storage import TIERED_TOPIC, wait_until_remote
from tests.kafka.engine import Background, Engine

pytestmark = pytest.mark.kafka

RECORDS = 5000
QUOTA = "remote.log.manager.fetch.max.bytes.per.second"


@pytest.fixture(scope="module")
def tiered(broker_jvm: BrokerJvm) -> Iterator[LocalKafka]:
    """A broker with a topic whose first 4,000 records and more are in the remote store only."""
    with LocalKafka(name="tiered", tiered=True, jvm=broker_jvm) as kafka:
        kafka.create_topic("t", 2, config=TIERED_TOPIC)
        producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "enable.idempotence": True,
                "batch.size": 65_536,
                "linger.ms": 20,
            }
        )
        for number in range(RECORDS):
            for partition in (0, 1):
                producer.produce("t", value=b"%d " % number + os.urandom(1000), partition=partition)
            producer.poll(0)
        assert producer.flush(120) == 0
        for partition in (0, 1):
            wait_until_remote(kafka, "t", 4000, partition)
        yield kafka


def set_quota(kafka: LocalKafka, bytes_per_second: int | None) -> None:
    """The quota of remote reads, while the broker runs; None is no quota."""
    operation = AlterConfigOpType.DELETE if bytes_per_second is None else AlterConfigOpType.SET
    value = None if bytes_per_second is None else str(bytes_per_second)
    entry = ConfigEntry(QUOTA, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in kafka.admin().incremental_alter_configs([resource]).values():
        future.result(60)


def test_a_remote_store_with_a_quota_is_read_to_the_end(
    tiered: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    set_quota(tiered, 3_000_000)
    engine = Engine(tiered, target_kafka, name)
    target_kafka.create_topic(engine.copy_of("t"), 2)
    outcome = engine.copy("t")
    assert not outcome.errors
    assert engine.check("t") == 2 * RECORDS

    with LogWindows(ClusterSettings.plaintext("tiered", tiered.bootstrap_servers)) as windows:
        sights, faults = windows.read([Window("t", 1, 0, RECORDS)])
    assert not faults
    (sight,) = sights.values()
    assert sight.complete
    assert sight.offsets == list(range(RECORDS))


def test_a_remote_store_that_brings_nothing_moves_no_position_and_is_named(
    tiered: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    # One read may pass, then none for as long as the broker counts it.
    set_quota(tiered, 1)
    engine = Engine(tiered, target_kafka, name)
    target_kafka.create_topic(engine.copy_of("t"), 2)
    outcome = engine.copy("t", retry_timeout_seconds=0.3)
    assert outcome.errors
    for (topic, partition), error in outcome.errors.items():
        position = outcome.ranges[topic, partition].position
        assert f"partition {topic}-{partition}" in error
        assert f"returned nothing at offset {position} " in error
        assert QUOTA in error
    assert any("waiting for the remote store" in note for slot in outcome.slots for note in slot.notes)

    with LogWindows(ClusterSettings.plaintext("tiered", tiered.bootstrap_servers), timeout_seconds=0.3) as windows:
        _, faults = windows.read([Window("t", 0, 0, RECORDS), Window("t", 1, 0, RECORDS)])
    assert faults
    assert all(QUOTA in fault for fault in faults.values())

    set_quota(tiered, None)
    assert not engine.copy("t").errors
    assert engine.check("t") == 2 * RECORDS


def test_a_remote_store_that_fails_for_a_while_is_asked_again(
    tiered: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    engine = Engine(tiered, target_kafka, name)
    target_kafka.create_topic(engine.copy_of("t"), 2)
    segments = list((tiered.directory / "remote").rglob("*.log"))
    for segment in segments:
        segment.rename(segment.with_suffix(".away"))
    logged = len(tiered.log_path().read_text())
    copying = Background(engine, "t", retry_timeout_seconds=120)
    try:
        deadline = time.monotonic() + 120
        while "Error occurred while reading the remote data" not in tiered.log_path().read_text()[logged:]:
            assert time.monotonic() < deadline, "the broker did not miss its remote store"
            time.sleep(0.1)
    finally:
        for segment in segments:
            segment.with_suffix(".away").rename(segment)
    assert not copying.result().errors
    assert engine.check("t") == 2 * RECORDS
