"""What is written by kafka-python when brokers do not answer, or not at once."""

from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import UnreachableCluster
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.wire.plain_records import NewRecord
from tests.by_link import by_link


def written(kafka: FakeCluster) -> list[bytes | None]:
    return [record.value for record in kafka.records("t")]


def test_a_write_to_a_silent_broker_ends_with_its_time() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("t")
        writer = StateWriter(by_link(ClusterSettings.plaintext("a", kafka.bootstrap_servers)), timeout_seconds=3)
        assert writer.write("write", [NewRecord("t", 0, b"k", b"0")]) == 1
        with (
            kafka.silence("Produce"),
            pytest.raises(UnreachableCluster, match="neither took nor sent a byte for 3 s"),
        ):
            writer.write("write", [NewRecord("t", 0, b"k", b"1")])
        assert writer.write("write", [NewRecord("t", 0, b"k", b"2")]) == 1
        assert written(kafka)[-1] == b"2"


def test_a_lost_answer_doubles_nothing() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("t")
        writer = StateWriter(by_link(ClusterSettings.plaintext("a", kafka.bootstrap_servers)))
        with kafka.drop_answer("Produce"):
            assert writer.write("write", [NewRecord("t", 0, b"k", b"1")]) == 1
        assert writer.write("write", [NewRecord("t", 0, b"k", b"2")]) == 1
        assert written(kafka) == [b"1", b"2"]


def test_connections_end_with_the_writer() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("t")
        writer = StateWriter(by_link(ClusterSettings.plaintext("a", kafka.bootstrap_servers)))
        writer.write("write", [NewRecord("t", 0, b"k", b"1")])
        assert writer._by_link is not None
        link = writer._by_link._link
        assert link is not None
        assert link.connection(1) is not None
        del writer
        assert link.connection(1) is None
