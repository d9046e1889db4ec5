"""Servers that answer, but not as Kafka does: one sentence, and no memory for what they seem to say."""

from __future__ import annotations

import re
import tracemalloc

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.connections.connection_faults import FIRST_REQUEST, explained, fault_text
from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.links.link import ClusterLink
from tests.silent_peers import peer

ANSWERS = {
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n": r"speaks HTTP, .*; correct bootstrap\.servers",
    b"\x15\x03\x03\x00\x02\x02\x46": "speaks TLS; set security.protocol to SSL or SASL_SSL",
    b"\x16\x03\x01\x00\x05hello": "speaks TLS; set security.protocol to SSL or SASL_SSL",
    b"SSH-2.0-OpenSSH_9.2\r\n": r"does not speak Kafka's protocol \(its response begins with 0x5353482d\)",
    b"\xff\xff\xff\xffxxxx": r"does not speak Kafka's protocol \(its response begins with 0xffffffff\)",
    b"": "closed the connection at the first request; if its listener has TLS, set security.protocol to SSL or "
    "SASL_SSL; it may also be restarting, or have as many connections as it takes",
}


def fault_of(cluster: ClusterSettings, expected: str) -> str:
    """Why the cluster is not reachable. A server is asked until the time is over: little, where that is enough."""
    for seconds in (0.2, 2, 20, 200):
        with ClusterLink(cluster) as link, pytest.raises(UnreachableCluster) as caught:
            link.run(lambda: link.open(timeout_seconds=seconds))  # noqa: B023
        if re.search(expected, str(caught.value)):
            break
    return str(caught.value)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: str(answer[:4]))
def test_an_answer_that_is_not_of_kafka_is_named(answer: bytes) -> None:
    with peer(answer) as server:
        tracemalloc.start()
        try:
            expected = f"{server} {ANSWERS[answer]}"
            assert re.search(expected, fault_of(ClusterSettings.plaintext("east", server), expected))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 64 << 20


def test_a_listener_that_closes_after_its_first_answer_is_not_suspected_of_another_protocol() -> None:
    closed = Errors.KafkaConnectionError(ConnectionResetError("gone"))
    assert "security.protocol" in str(explained("b1:9092", FIRST_REQUEST, 0.1, False, closed))
    for step, tls in ("the login", False), ("the login", True), (FIRST_REQUEST, True):
        text = fault_text(explained("b1:9092", step, 0.1, tls, closed))
        assert text.startswith(f"b1:9092 closed the connection at {step}; it may also be restarting, or have as many")


@pytest.mark.parametrize("answer", [b"", b"\x00\x00\x00\x0cnot of TLS at all"])
def test_tls_at_a_port_without_it_is_named(answer: bytes) -> None:
    with peer(answer) as server:
        cluster = ClusterSettings("east", server, {}, {"bootstrap_servers": [server], "security_protocol": "SSL"})
        expected = f"{server} .*set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        assert re.search(expected, fault_of(cluster, expected))


def test_a_name_that_does_not_resolve_is_named() -> None:
    expected = r"the name no-such-host\.invalid cannot be resolved"
    assert re.search(expected, fault_of(ClusterSettings.plaintext("east", "no-such-host.invalid:9092"), expected))
