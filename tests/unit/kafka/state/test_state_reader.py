from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import ClusterError
from srm_common.kafka.client.librdkafka import LATEST, Consumer
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from tests.by_link import by_link


def test_a_leader_on_its_move_is_waited_for() -> None:
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("state", 2)
        kafka.write("state", [(b"k", b"v")], 1)
        kafka.stop(2)
        back = threading.Timer(0.3, kafka.restart, [2])
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            back.start()
            try:
                assert reader.offsets("state", [1], LATEST) == {1: 1}
            finally:
                back.join()


def test_a_partition_without_a_leader_is_given_up_in_time() -> None:
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("state", 2)
        kafka.stop(2)
        with (
            StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers), timeout_seconds=3.0) as reader,
            pytest.raises(ClusterError, match="could not list the offsets of topic state"),
        ):
            reader.offsets("state", [1], LATEST)


@pytest.mark.parametrize("kind", ["librdkafka", "kafka-python"])
def test_brokers_that_restart_are_waited_for(kind: str) -> None:
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("state", 2)
        kafka.write("state", [(b"k", b"v")], 1)
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        with StateReader(cluster if kind == "librdkafka" else by_link(cluster)) as reader:
            assert reader.offsets("state", [1], LATEST) == {1: 1}
            kafka.go_away()
            back = threading.Timer(0.3, kafka.come_back)
            back.start()
            try:
                assert reader.offsets("state", [0, 1], LATEST) == {0: 0, 1: 1}
            finally:
                back.join()


class _Calls:
    """A consumer, and what it was asked to do, in order."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self._consumer, name)


def test_a_consumer_knows_the_leaders_before_it_is_assigned_partitions() -> None:
    """One without a connection would look for them in vain, and again a second later."""
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        kafka.write("state", [(b"k", b"v")] * 3)
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            assert reader._connection.consumer is not None
            calls = _Calls(reader._connection.consumer)
            reader._connection.consumer = cast(Consumer, calls)
            for _ in range(2):
                assert len(reader.read("state", {0: 0}, {0: 3})) == 3
    assert [name for name in calls.names if name in ("list_topics", "assign")] == ["list_topics", "assign", "assign"]
