"""What cannot be read of a group's notes; how they are read is in :mod:`tests.contract`."""

from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupFault, GroupOffsets, GroupReader
from srm_common.testing import FakeCluster

_NOT_COORDINATOR = 16


def test_a_note_that_cannot_be_read_again_is_a_fault_of_its_group_alone() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("orders")
        kafka.commit("plain", {TopicPartition("orders", 0): 3})
        kafka.commit("noted", {TopicPartition("orders", 0): 3}, "a note")
        reader = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers))
        kafka.after(2, "OffsetFetch").do(lambda: kafka.refuse("OffsetFetch", _NOT_COORDINATOR, when="noted"))
        found, faults = reader.offsets(["noted", "plain"])
        assert found == [GroupOffsets("plain", {TopicPartition("orders", 0): CommittedOffset(3)})]
        assert faults == [GroupFault("noted", "its coordinator moves")]


def test_brokers_before_kafka_3_are_not_asked_again() -> None:
    with FakeCluster(newest={"OffsetFetch": 7}) as kafka:
        kafka.create_topic("orders")
        kafka.commit("noted", {TopicPartition("orders", 0): 3}, "a note")
        (found,), faults = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)).offsets(["noted"])
        assert (found.offsets[TopicPartition("orders", 0)].offset, faults) == (3, [])
        assert len(kafka.asked("OffsetFetch")) == 1
