"""Three clusters, three flows, a service beside each: B->A, C->B and A->C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.flow.names import SERVICES_TOPIC
from srm_common.kafka.state.keyed_topic import encode
from srm_common.kafka.state.service_log import read_services
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.authority import Authority
from tests.kafka.flows import write
from tests.kafka.records import eventually
from tests.kafka.services import PASSWORD, Service

WAIT = 180.0


@pytest.fixture
def kafkas() -> Iterator[list[FakeCluster]]:
    """The clusters of A, B and C. What services ask of them is nothing that only brokers could answer."""
    with FakeCluster(name="A") as a, FakeCluster(name="B") as b, FakeCluster(name="C") as c:
        yield [a, b, c]


@pytest.fixture
def services(kafkas: list[FakeCluster], tmp_path: Path, name: str) -> Iterator[tuple[Service, Service, Service]]:
    """Of A, B and C. Each has copied its flow once and serves, B with TLS; A's file has the logins of the others."""
    stem = name.replace("-", "")[-12:]
    clusters = {f"{stem}{letter}": kafka for letter, kafka in zip("abc", kafkas, strict=True)}
    a, b, c = clusters
    made = (
        Service(tmp_path, a, b, clusters, name, "127.0.0.1"),
        Service(tmp_path, b, c, clusters, name, "localhost", Authority(tmp_path, "authority")),
        Service(tmp_path, c, a, clusters, name, "127.0.0.1"),
    )
    try:
        for number, (service, kafka) in enumerate(zip(made, (kafkas[1], kafkas[2], kafkas[0]), strict=True), 1):
            kafka.create_topic(name)
            write(kafka, name, [b"x"] * 10 * number)
            service.copy()
        # A flow copies what lies in a topic of that name; what the others have brought there has another name.
        logins = {"localhost": b, "127.0.0.1": c}
        for host, alias in logins.items():
            made[0].configure(
                {f"service.peer.{host}.user": "reader", f"service.peer.{host}.password": PASSWORD.format(alias)}
            )
        for service in made:
            service.start()
        for service in made:
            eventually(service.advertised, WAIT, f"{service.alias} is not advertised: {service.log()}")
            eventually(lambda: bool(service.flows()), WAIT, f"{service.alias} does not respond: {service.log()}")  # noqa: B023
        yield made
    finally:
        for service in made:
            service.close()


def test_with_a_gateway_at_a_all_flows_are_seen_and_a_dead_service_holds_up_nobody(
    services: tuple[Service, Service, Service], kafkas: list[FakeCluster], tmp_path: Path, name: str
) -> None:
    a, b, c = services
    everything = {a.flow_name, b.flow_name, c.flow_name}
    # Without it each knows its own.
    for service in services:
        assert set(service.flows()) == {service.flow_name}
        assert service.get("/health")["services"] == []

    # B's certificate has to be trusted first.
    stranger = Authority(tmp_path, "stranger")
    a.configure({"service.gateway.enabled": "true", "service.peers.ca.location": stranger.pem})
    eventually(lambda: set(a.flows()) == everything - {b.flow_name}, WAIT, f"the gateway does not see C: {a.log()}")
    [untrusted] = a.get("/flows")["errors"]
    assert (untrusted["code"], untrusted["service"]) == ("peer_failed", b.alias)
    assert f"{b.url}) has a certificate that is not trusted: " in untrusted["message"]
    assert f"the authorities are {stranger.pem}, see service.peers.ca.location" in untrusted["message"]
    a.configure({"service.peers.ca.location": tmp_path / "authority.pem"})
    eventually(lambda: set(a.flows()) == everything, WAIT, f"the gateway does not see all flows: {a.log()}")
    found = a.get("/flows")
    assert found["total"] == 3
    assert found["errors"] == []
    told = {flow["flow"]: flow for flow in found["flows"]}
    assert [told[one.flow_name]["service"] for one in services] == [None, b.alias, c.alias]
    assert [told[one.flow_name]["last_run"]["records"] for one in services] == [10, 20, 30]
    assert [told[one.flow_name]["lag"] for one in services] == [0, 0, 0]
    # The others are no gateways, and answer for themselves.
    assert set(b.flows()) == {b.flow_name}
    assert set(flow["flow"] for flow in a.get("/flows?local=true")["flows"]) == {a.flow_name}

    health = a.get("/health")
    assert set(health["flows"]) == everything
    assert [(one["name"], one["targets"], one["reachable"]) for one in health["services"]] == [
        (b.alias, [b.alias], True),
        (c.alias, [c.alias], True),
    ]

    _look_into(a, b, name)
    _scribble(a, b, c)

    # What B measures is what A shows: seven records behind, counted by B alone.
    write(kafkas[2], name, [b"x"] * 7)
    b.report("a run that left no record")
    eventually(
        lambda: a.flows().get(b.flow_name, {}).get("lag") == 7,
        WAIT,
        "the gateway does not see that B's flow is 7 records behind",
    )

    # One that is stopped still takes connections, and answers none.
    b.send(signal.SIGSTOP)
    silent = a.get("/flows")
    assert {flow["flow"] for flow in silent["flows"]} == {a.flow_name, c.flow_name}
    assert [(one["code"], one["service"]) for one in silent["errors"]] == [("peer_failed", b.alias)]
    assert f"{b.url}) did not respond within 10 s" in silent["errors"][0]["message"]
    again = a.get("/flows")["errors"]
    assert "it is tried again in" in again[0]["message"]
    status, [missing] = a.refusal(f"{b.path}/topics")
    assert (status, missing["code"], missing["service"]) == (502, "peer_failed", b.alias)
    b.send(signal.SIGCONT)
    eventually(lambda: set(a.flows()) == everything, WAIT, "the gateway does not ask B again")

    # One that was killed refuses connections, until it is forgotten; one that ended well is not missed.
    b.end(signal.SIGKILL)
    c.end()
    eventually(lambda: not c.advertised(), WAIT, "C is still advertised")

    def left() -> list[tuple[str, bool]]:
        return [(one["name"], one["reachable"]) for one in a.get("/health")["services"]]

    eventually(lambda: left() == [(b.alias, False)], WAIT, f"the gateway still knows {left()}")
    dead = a.get("/flows")
    assert {flow["flow"] for flow in dead["flows"]} == {a.flow_name}
    assert [one["service"] for one in dead["errors"]] == [b.alias]
    assert "refused" in dead["errors"][0]["message"]
    for path in ("", "/topics", "/metrics/byte-rate"):
        status, [missing] = a.refusal(b.path + path)
        assert (status, missing["code"], missing["service"]) == (502, "peer_failed", b.alias)
        assert "refused" in missing["message"]


def _look_into(a: Service, b: Service, name: str) -> None:
    """What B tells of its flow is what A shows of it."""
    assert a.get(b.path)["flow"]["service"] == b.alias
    told = {
        path: (a.get(b.path + path), b.get(b.path + path))
        for path in ("/topics", f"/topics/{name}", "/partitions", "/groups", "/runs", "/decisions", "/plan")
    }
    for path, (here, there) in told.items():
        assert here.pop("service") == b.alias, path
        assert there.pop("service") is None
        for each in (here, there):
            del each["now_ms"]
            each.pop("range", None)
        assert here == there, path
    assert [(one["position"], one["lag"]) for one in told["/partitions"][0]["partitions"]] == [(20, 0)]
    assert [one["records"] for one in told["/runs"][0]["runs"]] == [20]
    assert a.get(f"{b.path}/metrics/run-duration-ms")["points"] != []
    assert a.refusal(f"{b.path}/topics/nix")[0] == 404
    # It asks the clusters, as B does, and nobody there knows the group.
    [nobody] = a.get(f"{b.path}/group-offsets?group={name}")["errors"]
    assert (nobody["code"], nobody["service"]) == ("group_note", b.alias)


def _scribble(a: Service, b: Service, c: Service) -> None:
    """Write what others might into the topic where services are found: it is told, and harms nothing."""
    cluster = b.flow.target
    known, unreadable = read_services(cluster, timeout_seconds=60)
    own = next(advertisement for advertisement in known if advertisement.url == b.url)
    assert unreadable == []

    def put(key: str, value: bytes | None, written_ms: int | None = None) -> None:
        StateWriter(cluster).write("write", [NewRecord(SERVICES_TOPIC, 0, key.encode(), value, written_ms)])

    def like(**changed: Any) -> bytes:
        return encode({**own.to_json(), **changed})

    # Old, not allowed, and none at all; the last one is what the gateway tells.
    put("old", like(name="old", port=1), own.seen_ms - 400_000)
    put("stranger", like(name="stranger", host="stranger.example"))
    put("garbage", b"\x00\xff")
    a.configure({"service.peers.hosts": r"localhost, 127\\..*"})
    eventually(lambda: len(a.get("/health")["errors"]) == 2, WAIT, "the gateway does not see what is in the topic")
    health = a.get("/health")
    assert len(a.flows()) == 3
    assert {one["name"]: one["reachable"] for one in health["services"]} == {
        b.alias: True,
        c.alias: True,
        "stranger": False,
    }
    messages = sorted(one["message"] for one in health["errors"])
    assert len(messages) == 2
    assert "service 'stranger' (https://stranger.example" in messages[0] + messages[1]
    assert "service.peers.hosts does not allow" in messages[0] + messages[1]
    assert f"of {SERVICES_TOPIC} on cluster '{b.alias}' cannot be read" in messages[0] + messages[1]
    for key in ("old", "stranger", "garbage"):
        put(key, None)
    eventually(lambda: a.get("/health")["errors"] == [], WAIT, "the gateway does not see that it is gone")
