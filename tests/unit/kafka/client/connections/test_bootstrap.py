"""How a link comes to its brokers: the connection that found them stays, where it is to one of them."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.connections import dialing
from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.connections.dialing import canonical_servers
from srm_common.kafka.client.connections.event_loop import EventLoop
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


def test_an_idle_connection_is_probed_before_load_balancers_forget_it() -> None:
    """Azure's do so after four minutes."""
    with FakeCluster() as kafka:
        kafka.create_topic("orders", 6)
        with ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link:
            link.run(lambda: link.open(["orders"]))
            (connection,) = link.manager._conns.values()
            opened = connection.transport._sock
            assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert opened.getsockopt(socket.IPPROTO_TCP, dialing._IDLE_OPTION) <= 120
            # If the other side is gone, the connection ends within minutes; by the kernel's defaults, after two hours.
            probes = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
            assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) * probes <= 180


def test_what_failed_is_said_rather_than_what_the_deadline_cut_off() -> None:
    """A server that speaks HTTP for some seconds, and then not at all; an attempt may take ten."""
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):  # the listener is closed
                while True:
                    connection, _ = listener.accept()
                    taken.append(connection)
                    if time.monotonic() - began < 8:
                        connection.recv(1000)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        cluster = ClusterSettings.plaintext("a", f"127.0.0.1:{listener.getsockname()[1]}")
        try:
            with (
                pytest.raises(UnreachableCluster, match="speaks HTTP"),
                ClusterLink(cluster) as link,
            ):
                link.run(link.open)
            assert len(taken) > 1
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in taken:
                connection.close()
            thread.join(10)


def test_servers_are_asked_by_the_names_of_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tickets and certificates of single brokers behind one name need it."""
    names = {
        "10.0.0.1": "b1.example.com",
        "10.0.0.2": "b2.example.com",
        "10.0.0.3": "10.0.0.3",
        "::1": "b2.example.com",
    }

    def addresses(host: str, port: int, *_: object, **__: object) -> list[Any]:
        if host != "kafka.example.com":
            raise OSError("no such host")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "kafka.example.com", (one, port)) for one in names]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, flags: (names[address[0]], str(address[1])))
    servers = ["kafka.example.com:9092", "gone.example.com:9093"]
    expected = ["b1.example.com:9092", "b2.example.com:9092", "10.0.0.3:9092", "gone.example.com:9093"]
    assert sorted(canonical_servers(servers)) == sorted(expected)
    lookup = "resolve_canonical_bootstrap_servers_only"
    loop = EventLoop()
    for asked, found in (lookup, expected), ("use_all_dns_ips", servers):
        manager = FrameConnectionManager(loop, bootstrap_servers=servers, client_dns_lookup=asked)
        assert {f"{one.host}:{one.port}" for one in manager.cluster.bootstrap_brokers()} == {*found}
        manager.close()
    loop.close()
