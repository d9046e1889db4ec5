from __future__ import annotations

import random

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import AccessDenied, ClusterError, UnreachableCluster
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.wire.state.plain_records import NewRecord

_INVALID_RECORD, _DENIED, _NOT_LEADER = 87, 29, 6


def settings(kafka: FakeCluster) -> ClusterSettings:
    return ClusterSettings.plaintext("c", kafka.bootstrap_servers)


def record(value: bytes, partition: int = 0) -> NewRecord:
    return NewRecord("state", partition, b"k", value)


def values(kafka: FakeCluster, partition: int = 0) -> list[bytes | None]:
    return [one.value for one in kafka.records("state", partition)]


def test_writes_share_a_producer_id_and_a_connection() -> None:
    with FakeCluster() as kafka, LinkPool() as pool:
        kafka.create_topic("state")
        writer = StateWriter(settings(kafka), pool=pool)
        assert writer.write("write", [record(b"1"), record(b"2")]) == 2
        assert writer.write("write", [record(b"3")]) == 1
        assert len(kafka.asked("InitProducerId")) == 1
        assert kafka.connections == {1: 1}
        assert values(kafka) == [b"1", b"2", b"3"]


def test_where_repeats_do_not_matter_no_producer_id_is_asked_for() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        assert StateWriter(settings(kafka), repeats_matter=False).write("write", [record(b"1")]) == 1
        assert kafka.asked("InitProducerId") == []
        assert values(kafka) == [b"1"]


def test_a_lost_answer_stores_nothing_twice() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        kafka.drop_answer("Produce")
        writer = StateWriter(settings(kafka))
        assert writer.write("write", [record(b"1"), record(b"2")]) == 2
        assert writer.write("write", [record(b"3")]) == 1
        assert values(kafka) == [b"1", b"2", b"3"]


def test_a_write_that_was_not_confirmed_ends_its_producer_id() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        writer = StateWriter(settings(kafka))
        with kafka.refuse("Produce", _INVALID_RECORD), pytest.raises(ClusterError, match="could not write: state-0"):
            writer.write("write", [record(b"lost")])
        assert writer.write("write", [record(b"1")]) == 1
        assert len(kafka.asked("InitProducerId")) == 2
        assert values(kafka) == [b"1"]


def test_a_partition_that_is_refused_does_not_stop_the_others() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state", 2)
        kafka.create_topic("denied")
        records = [NewRecord("denied", 0, b"k", b"x"), *(record(b"%d" % number, number) for number in (0, 1))]
        with (
            kafka.refuse("Produce", _DENIED, when="denied"),
            pytest.raises(AccessDenied, match="Write on topic 'denied'"),
        ):
            StateWriter(settings(kafka)).write("write", records)
        assert (values(kafka), values(kafka, 1)) == ([b"0"], [b"1"])


def test_a_leader_on_its_move_is_waited_for() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        kafka.refuse("Produce", _NOT_LEADER, times=2)
        assert StateWriter(settings(kafka)).write("write", [record(b"1")]) == 1
        assert values(kafka) == [b"1"]


def test_a_cluster_that_does_not_confirm_in_time_is_an_error() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        writer = StateWriter(settings(kafka), timeout_seconds=0.5)
        with (
            kafka.refuse("Produce", _NOT_LEADER),
            pytest.raises(UnreachableCluster, match="did not acknowledge in time"),
        ):
            writer.write("write", [record(b"1")])


def test_a_write_to_a_silent_broker_ends_with_its_time() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        writer = StateWriter(settings(kafka), timeout_seconds=3)
        assert writer.write("write", [record(b"0")]) == 1
        with (
            kafka.silence("Produce"),
            pytest.raises(UnreachableCluster, match="neither took nor sent a byte for 3 s"),
        ):
            writer.write("write", [record(b"1")])
        assert writer.write("write", [record(b"2")]) == 1
        assert values(kafka)[-1] == b"2"


def test_a_writer_serves_again_after_an_error_that_ends_its_producer_id() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        writer = StateWriter(settings(kafka))
        assert writer.write("write", [record(b"1")]) == 1
        # As after an unclean election: the log ends before what was written.
        with (
            kafka.refuse("Produce", codes.OUT_OF_ORDER_SEQUENCE_NUMBER),
            pytest.raises(ClusterError, match="could not write: state-0: OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ):
            writer.write("write", [record(b"2")])
        assert writer.write("write", [record(b"3")]) == 1
        assert values(kafka) == [b"1", b"3"]


def test_a_topic_that_takes_no_batches_of_that_size_is_named_with_its_setting() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state", config={"max.message.bytes": "1000"})
        writer = StateWriter(settings(kafka))
        with pytest.raises(ClusterError) as raised:
            writer.write("write offset syncs", [record(random.randbytes(5000))])
        text = str(raised.value)
        assert (
            "could not write offset syncs: max.message.bytes of state topic state at cluster 'c' is too small" in text
        )
        assert "set it to 1048588 or more" in text
        assert writer.write("write", [record(b"1")]) == 1
        assert values(kafka) == [b"1"]


def test_a_broker_whose_clock_is_far_behind_is_not_asked_again() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        writer = StateWriter(settings(kafka))
        with kafka.refuse("Produce", codes.INVALID_TIMESTAMP), pytest.raises(ClusterError) as raised:
            writer.write("write offset syncs", [record(b"1")])
        assert "could not write offset syncs: state topic state at cluster 'c' refuses records for their time" in str(
            raised.value
        )
        assert writer.write("write", [record(b"2")]) == 1
        assert values(kafka) == [b"2"]
