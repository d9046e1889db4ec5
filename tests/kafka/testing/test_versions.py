"""Every Kafka version that is supported starts and takes records."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from srm_common.testing import LocalKafka

# The oldest supported one in every run; those between it and the newest when there is time.
VERSIONS = ["3.3.2", pytest.param("3.9.1", marks=pytest.mark.soak), pytest.param("4.1.1", marks=pytest.mark.soak)]


@pytest.mark.parametrize("version", VERSIONS)
def test_version_starts_and_takes_records(version: str) -> None:
    with LocalKafka(version=version, name=f"kafka-{version}") as kafka:
        kafka.create_topic("t")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce("t", b"v")
        assert producer.flush(60) == 0
        assert "started (kafka.server" in kafka.log_path().read_text()
