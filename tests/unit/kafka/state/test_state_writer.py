from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.state import state_writer
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.wire.plain_records import NewRecord


def test_a_producer_id_is_asked_for_as_soon_as_a_broker_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_writer, "PRODUCER_ID_SECONDS", 60.0)
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        writer = StateWriter(ClusterSettings.plaintext("c", kafka.bootstrap_servers))
        assert writer.write("write", [NewRecord("state", 0, b"k", b"1")]) == 1
        # librdkafka alone requests metadata once, before it has a connection to ask for the id through.
        assert len(kafka.asked("Metadata")) > 1
        assert len(kafka.asked("InitProducerId")) == 1
        assert writer.write("write", [NewRecord("state", 0, b"k", b"2")]) == 1
        assert [record.value for record in kafka.records("state")] == [b"1", b"2"]
