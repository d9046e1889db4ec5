"""How a link comes to its brokers: the connection that found them stays, where it is to one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import FakeCluster


def offsets(cluster: ClusterSettings) -> dict[TopicPartition, int]:
    """The starts of a topic's partitions, from the leaders of all of them."""
    places = [TopicPartition("orders", number) for number in range(6)]
    with ClusterLink(cluster) as link:
        found, faults = link.start_offsets(places)
    assert faults == {}
    return found


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_link_connects_once_to_each_broker(nodes: int) -> None:
    with FakeCluster(nodes) as kafka:
        kafka.create_topic("orders", 6)
        assert len(offsets(ClusterSettings.plaintext("a", kafka.bootstrap_servers))) == 6
        assert kafka.connections == dict.fromkeys(kafka.nodes, 1)


def test_a_server_that_has_another_address_as_a_broker_is_left() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("orders", 6)
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers.replace("127.0.0.1", "localhost"))
        assert len(offsets(cluster)) == 6
        assert kafka.connections == {1: 2}


def test_brokers_that_give_out_one_address_are_not_told_apart_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster(2) as kafka:
        kafka.create_topic("orders", 6)
        first, _ = kafka._topics.nodes.values()
        monkeypatch.setitem(kafka._topics.nodes, 2, replace(first, number=2))
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers.split(",")[0])
        with ClusterLink(cluster) as link:
            link.run(lambda: link.open(["orders"]))
            assert link.manager._conns == {}
            assert kafka.connections == {1: 1}


def test_a_connection_that_found_the_brokers_is_made_again_when_it_ends() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("orders", 6)
        with ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link:
            link.run(lambda: link.open(["orders"]))
            kafka.go_away()
            kafka.come_back()
            found, faults = link.start_offsets([TopicPartition("orders", 0)])
        assert (found, faults) == ({("orders", 0): 0}, {})
        assert kafka.connections[1] > 1
