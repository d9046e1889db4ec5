from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import ClusterError
from srm_common.kafka.client import codes
from srm_common.kafka.state import state_writer
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.wire.plain_records import NewRecord
from tests.by_link import by_link


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


@pytest.mark.parametrize("kind", ["librdkafka", "kafka-python"])
def test_a_writer_serves_again_after_an_error_that_ends_its_producer(kind: str) -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        writer = StateWriter(cluster if kind == "librdkafka" else by_link(cluster))
        assert writer.write("write", [NewRecord("state", 0, b"k", b"1")]) == 1
        # As after an unclean election: the log ends before what was written.
        with (
            kafka.refuse("Produce", codes.OUT_OF_ORDER_SEQUENCE_NUMBER),
            pytest.raises(ClusterError, match=r"could not write:.*(?i:sequence)"),
        ):
            writer.write("write", [NewRecord("state", 0, b"k", b"2")])
        assert writer.write("write", [NewRecord("state", 0, b"k", b"3")]) == 1
        assert [record.value for record in kafka.records("state")] == [b"1", b"3"]
