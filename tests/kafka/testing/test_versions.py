"""Every Kafka version that is supported starts and takes records."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from srm_common.testing import LocalKafka

# The oldest supported one in every run; those between it and the newest when there is time.
VERSIONS = ["2.8.2", *(pytest.param(one, marks=pytest.mark.soak) for one in ("3.3.2", "3.9.1", "4.1.1", "4.4.0"))]


@pytest.mark.parametrize("version", VERSIONS)
def test_version_starts_and_takes_records(version: str) -> None:
    with LocalKafka(version=version, name=f"kafka-{version}") as kafka:
        kafka.create_topic("t")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
        producer.produce("t", b"v")
        assert producer.flush(60) == 0
        assert "started (kafka.server" in kafka.log_path().read_text()
