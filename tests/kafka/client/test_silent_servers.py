"""Servers and brokers that do not respond beside one that does: links do not wait for them."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import kafka.errors as Errors
import pytest
from confluent_kafka.admin import NewTopic
from kafka.protocol.metadata import ApiVersionsRequest, MetadataResponse

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.connections.dialing import SILENT
from srm_common.kafka.client.librdkafka import BROKER_LEFT, KafkaError, KafkaException, admin_client
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.log.log_facts import compaction
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.transactions.producer_ids import init_producer
from srm_common.testing import LocalKafka
from tests.silent_peers import black_hole, named, peer, relay

#: Any single wait for a silent server would last as long as this.
PATIENCE_MS = 600_000


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence of other tests is forgotten, and servers are asked in the order that they are written in."""
    monkeypatch.setattr(SILENT, "_until", {})
    monkeypatch.setattr(random, "shuffle", lambda items: None)


def settings_of(*servers: str, protocol: str = "PLAINTEXT", setup_ms: int = PATIENCE_MS) -> ClusterSettings:
    arguments = {
        "bootstrap_servers": list(servers),
        "security_protocol": protocol,
        "socket_connection_setup_timeout_ms": setup_ms,
        "socket_connection_setup_timeout_max_ms": setup_ms,
    }
    return ClusterSettings("east", ",".join(servers), {}, arguments)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.fixture
def healthy(source_kafka: LocalKafka) -> Iterator[ClusterLink]:
    with ClusterLink(settings_of(source_kafka.bootstrap_servers), request_timeout_ms=PATIENCE_MS) as link:
        link.run(lambda: link.open(timeout_seconds=300))
        yield link


def add_broker(link: ClusterLink, number: int, address: str) -> None:
    """Let the link believe that the cluster has one more broker."""
    host, _, port = address.rpartition(":")
    brokers = link.manager.cluster._brokers
    brokers[number] = MetadataResponse.MetadataResponseBroker(number, host, int(port), None)
    link.manager.cluster._brokers = dict(sorted(brokers.items()))


def test_servers_that_are_gone_or_silent_hold_up_no_link(source_kafka: LocalKafka) -> None:
    with black_hole() as gone, peer() as silent:
        cluster = settings_of(gone, silent, source_kafka.bootstrap_servers)
        for _ in range(3):
            with ClusterLink(cluster) as link:
                link.run(lambda: link.open(timeout_seconds=300))
                assert link.manager.cluster.brokers()
        # The next link of the process asks them last.
        assert {("127.0.0.1", port_of(one)) in SILENT for one in (gone, silent)} == {True}
        assert ("127.0.0.1", port_of(source_kafka.bootstrap_servers)) not in SILENT


def test_every_address_of_a_name_is_tried(source_kafka: LocalKafka) -> None:
    port = port_of(source_kafka.bootstrap_servers)
    with (
        named("kafka.example", "127.0.0.9", "127.0.0.10", "127.0.0.1"),
        black_hole("127.0.0.9", port),
        ClusterLink(settings_of(f"kafka.example:{port}")) as link,
    ):
        link.run(lambda: link.open(timeout_seconds=300))
        # Also by the name that a broker advertises.
        add_broker(link, 7, f"kafka.example:{port}")
        request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
        assert link.run(lambda: link.send(7, request)).error_code == 0


def test_an_address_that_takes_connections_without_a_word_is_not_waited_for(source_kafka: LocalKafka) -> None:
    """Its process hangs or is stopped: the kernel takes connections all the same."""
    port = port_of(source_kafka.bootstrap_servers)
    request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    with (
        named("kafka.example", "127.0.0.9", "127.0.0.1"),
        peer(host="127.0.0.9", port=port),
        ClusterLink(settings_of(f"kafka.example:{port}"), request_timeout_ms=PATIENCE_MS) as link,
    ):
        link.run(lambda: link.open(timeout_seconds=300))
        assert ("127.0.0.9", port) in SILENT
        for _ in range(2):
            SILENT.forget(("127.0.0.9", port))
            # A broker's own connection, by a name that it advertises.
            add_broker(link, 7, f"kafka.example:{port}")
            assert link.run(lambda: link.send(7, request)).error_code == 0
            assert link.run(lambda: link.send(7, request)).error_code == 0
            link.disconnect(7)
        assert ("127.0.0.9", port) in SILENT


def test_an_address_that_closes_connections_is_passed_over(source_kafka: LocalKafka) -> None:
    port = port_of(source_kafka.bootstrap_servers)
    request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    with (
        named("kafka.example", "127.0.0.9", "127.0.0.1"),
        peer(b"", host="127.0.0.9", port=port),
        ClusterLink(settings_of(f"kafka.example:{port}")) as link,
    ):
        link.run(lambda: link.open(timeout_seconds=300))
        add_broker(link, 7, f"kafka.example:{port}")
        SILENT.forget(("127.0.0.9", port))
        assert link.run(lambda: link.send(7, request)).error_code == 0


def test_admin_clients_and_readers_go_by_a_silent_server(source_kafka: LocalKafka, name: str) -> None:
    source_kafka.create_topic(name)
    with peer() as silent:
        plain = ClusterSettings.plaintext("east", f"{silent},{source_kafka.bootstrap_servers}")
        # Whoever waited for the silent one would do so longer than the questions may take.
        limits = {"socket.connection.setup.timeout.ms": "2147483647", "api.version.request.timeout.ms": "300000"}
        cluster = replace(plain, confluent={**plain.confluent, **limits})
        for _ in range(4):  # which server is asked first is drawn
            assert name in admin_client(cluster).list_topics(timeout=200).topics
            with StateReader(cluster, timeout_seconds=200) as reader:
                assert reader.partitions(name) == 1
                assert reader.read(name) == []


def test_a_handshake_that_never_ends_has_a_limit() -> None:
    with peer() as silent:
        cluster = settings_of(silent, protocol="SSL", setup_ms=300)
        with (
            ClusterLink(cluster) as link,
            pytest.raises(UnreachableCluster, match="does not respond to the TLS handshake"),
        ):
            link.run(lambda: link.open(timeout_seconds=1))


def test_a_broker_that_does_not_get_ready_fails_its_requests(source_kafka: LocalKafka) -> None:
    request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    with peer() as silent, ClusterLink(settings_of(source_kafka.bootstrap_servers, setup_ms=20_000)) as link:
        link.run(lambda: link.open(timeout_seconds=300))
        link.manager.config["socket_connection_setup_timeout_ms"] = 1000
        for protocol, step in (("PLAINTEXT", "the first request"), ("SSL", "the TLS handshake")):
            # The cluster, which is asked again after a failure, does not know of it.
            add_broker(link, 0, silent)
            link.manager.config["security_protocol"] = protocol
            link.manager.reset_backoff(0)
            with pytest.raises(RetriableFault, match=f"{silent} accepts connections, but does not respond to {step}"):
                link.run(lambda: link.send(0, request, timeout_ms=PATIENCE_MS))
        # A request with less patience than the connection has does not wait for it.
        link.manager.config["socket_connection_setup_timeout_ms"] = PATIENCE_MS
        add_broker(link, 0, silent)
        link.manager.reset_backoff(0)
        with pytest.raises(RetriableFault, match=r"was not connected in 0\.2 s"):
            link.run(lambda: link.send(0, request, timeout_ms=200))


def coordinator(link: ClusterLink, name: str) -> int:
    """That of a transactional id; the first one of a cluster waits for its topic."""
    deadline = time.monotonic() + 300
    while True:
        try:
            return link.run(lambda: link.coordinator(name))
        except RetriableFault as error:
            if "COORDINATOR_NOT_AVAILABLE" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_requests_for_any_broker_do_not_wait_for_a_silent_one(healthy: ClusterLink, name: str) -> None:
    with black_hole() as gone, peer() as silent:
        add_broker(healthy, -2, gone)
        add_broker(healthy, -1, silent)  # both before the real one
        assert healthy.run(healthy.any_node) == 1
        add_broker(healthy, -2, gone)
        add_broker(healthy, -1, silent)
        assert healthy.run(lambda: healthy.finalized_feature("transaction.version", 300)) >= 0
        add_broker(healthy, -2, gone)
        assert coordinator(healthy, name) == 1
        add_broker(healthy, -2, gone)
        healthy.run(healthy.refresh)
        assert [broker.node_id for broker in healthy.manager.cluster.brokers()] == [1]


@pytest.mark.parametrize(
    "ask",
    [
        lambda link, _: init_producer(link, None, transaction_timeout_ms=60_000, deadline=time.monotonic() + 300),
        lambda link, topic: topic_ids(link, [topic], 300),
        lambda link, topic: compaction(link, [topic]),
    ],
    ids=["producer id", "topic ids", "compaction"],
)
def test_no_question_waits_for_a_broker_that_has_gone_silent(
    healthy: ClusterLink, source_kafka: LocalKafka, name: str, ask: Callable[[ClusterLink, str], Awaitable[Any]]
) -> None:
    source_kafka.create_topic(name)
    request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    with relay(source_kafka.bootstrap_servers) as (address, silent):
        add_broker(healthy, -1, address)
        assert healthy.run(lambda: healthy.send(-1, request)).error_code == 0
        silent.set()
        # It is connected and idle, so that it is asked first.
        assert healthy.run(healthy.any_node) == -1
        assert healthy.run(lambda: ask(healthy, name))


def test_each_broker_answers_for_itself(healthy: ClusterLink) -> None:
    def request() -> Any:
        return ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")

    with peer(b"") as closing:
        add_broker(healthy, 0, closing)
        answers = healthy.run(lambda: healthy.ask_each(request))
    assert answers[1].error_code == 0
    assert isinstance(answers[0], RetriableFault)
    assert f"{closing} closed the connection at the first request" in str(answers[0])


def test_metadata_goes_on_being_refreshed_after_a_failure(healthy: ClusterLink) -> None:
    """Also when the refresh that failed was begun by another task than the one that refreshes in the background."""
    cluster: Any = healthy.manager.cluster
    refresh = cluster._do_refresh_metadata

    async def failing(node: Any) -> None:
        await healthy.loop.sleep(0.2)
        raise Errors.KafkaConnectionError("a broker went away")

    async def work() -> None:
        cluster._do_refresh_metadata = failing
        begun = healthy.loop.call_soon_with_future(healthy.refresh)
        await healthy.loop.sleep(0)
        cluster.request_update()  # the background waits for the same refresh
        await begun
        cluster._do_refresh_metadata = refresh
        updated = cluster.request_update()
        await updated

    healthy.run(work)


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[LocalKafka]:
    """Tests stop one of its nodes at a time, and start it again."""
    with LocalKafka(nodes=3, name="stopped") as kafka:
        yield kafka


def test_a_broker_that_is_stopped_holds_up_no_link_and_goes_on(three_nodes: LocalKafka, name: str) -> None:
    """SIGSTOP: its kernel takes connections, and nobody answers."""
    three_nodes.create_topic(name)
    request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    servers = three_nodes.bootstrap_servers.split(",")
    three_nodes.wait_until_ready()
    for node in three_nodes.nodes:
        cluster = settings_of(servers[node - 1], *(server for server in servers if server != servers[node - 1]))
        three_nodes.pause(node)
        try:
            with ClusterLink(cluster, request_timeout_ms=PATIENCE_MS) as link:
                link.run(lambda: link.open(timeout_seconds=300))
                assert {broker.node_id for broker in link.manager.cluster.brokers()} >= set(three_nodes.nodes) - {node}
                assert link.run(lambda: link.finalized_feature("transaction.version", 300)) >= 0
                asked = link.loop.call_soon_with_future(link.send, node, request)
                assert link.run(link.any_node) != node
                assert not asked.is_done
                three_nodes.resume(node)
                assert link.run(lambda asked=asked: asked).error_code == 0  # type: ignore[misc]
        finally:
            three_nodes.resume(node)
        three_nodes.wait_until_ready()


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_admin_clients_hear_of_another_controller(three_nodes: LocalKafka, name: str, how: str) -> None:
    """KRaft brokers name any of themselves as the controller. By librdkafka's own interval of five minutes, a request
    waits longer than it may for a connection to one that is gone. (A request that was sent before its broker stopped
    ends by its own time limit, so here the controller is one that is not connected to yet.)"""
    three_nodes.wait_until_ready()
    # Of several bootstrap servers a busy machine connects to more than the one that answers.
    first, *_ = three_nodes.bootstrap_servers.split(",")
    while True:
        admin = admin_client(ClusterSettings.plaintext("east", first))
        cluster = admin.list_topics(timeout=60)
        if cluster.controller_id != cluster.orig_broker_id:
            break
    node = cluster.controller_id
    getattr(three_nodes, how)(node)
    try:
        while True:
            made = admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=60, request_timeout=240)
            try:
                assert made[name].result() is None
                break
            except KafkaException as error:
                # librdkafka may give up a broker that it knew by its bootstrap address alone; the product asks again.
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    break
                if error.args[0].code() != BROKER_LEFT:
                    raise
    finally:
        three_nodes.restart(node) if how == "kill" else three_nodes.resume(node)
        three_nodes.wait_until_ready()
