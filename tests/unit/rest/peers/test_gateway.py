"""What a gateway makes of another service's flows; that it finds services in Kafka is tested with brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bench.history import Scenario
from bench.scraping import served
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.metrics.stats import TimeRange
from srm_common.errors import PeerError
from srm_common.rest.peers.gateway import Peers
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import HealthAnswer
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from tests.unit.rest.peers.gateways import NAMES, OWN, SHAPE, gateway_beside, their_history
from tests.unit.rest.people import HEADER, HeaderAccess

HIDDEN = NAMES[0]
VIEWER = {HEADER: "viewer"}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsStore]:
    """The history of the other service."""
    with their_history(tmp_path_factory.mktemp("theirs")) as store:
        yield store


@pytest.fixture(scope="module")
def gateway(theirs: MetricsStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with gateway_beside(theirs, tmp_path_factory.mktemp("gateway"), HeaderAccess(hidden=[HIDDEN])) as app:
        yield TestClient(app)


def test_flows_of_others_are_shown_and_not_steered(gateway: TestClient) -> None:
    answer = gateway.get("/api/v2/flows", headers=VIEWER).json()
    assert answer["errors"] == []
    assert [flow["flow"] for flow in answer["flows"]] == sorted(str(name) for name in NAMES if name != HIDDEN)
    assert answer["total"] == len(NAMES) - 1
    for flow in answer["flows"]:
        if flow["flow"] == str(OWN):
            assert flow["service"] is None
            assert flow["last_run"] is None  # what the other has of it does not count
            continue
        assert flow["service"] == "west"
        assert flow["last_run"]["records"] is not None
        assert flow["dag_url"] is None
        helps = [flow["health"]["help"], *(alarm["help"] for alarm in flow["alarms"])]
        assert [one["action"] for one in helps if one is not None] == [None] * len([one for one in helps if one])


def test_filters_and_pages_go_over_all_of_them(gateway: TestClient) -> None:
    lost = NAMES[list(Scenario).index(Scenario.LOST)]
    found = gateway.get("/api/v2/flows?status=lost_data", headers=VIEWER).json()
    assert [flow["flow"] for flow in found["flows"]] == [str(lost)]
    everything = sorted(str(name) for name in NAMES if name != HIDDEN)
    page = gateway.get("/api/v2/flows?offset=2&limit=3", headers=VIEWER).json()
    assert [flow["flow"] for flow in page["flows"]] == everything[2:5]
    assert page["total"] == len(everything)


def test_health_has_the_services_and_hides_what_is_hidden(gateway: TestClient) -> None:
    found = gateway.get("/api/v2/health", headers=VIEWER).json()
    assert set(found["flows"]) == {str(name) for name in NAMES if name != HIDDEN}
    assert [(one["name"], one["reachable"]) for one in found["services"]] == [("west", True)]
    alone = gateway.get("/api/v2/health?local=true", headers=VIEWER).json()
    assert (set(alone["flows"]), alone["services"]) == ({str(OWN)}, [])


FOREIGN = NAMES[3]
DETAILS = f"/api/v2/flows/{FOREIGN.source}/{FOREIGN.target}"


def test_details_of_others_are_theirs(gateway: TestClient, theirs: MetricsStore) -> None:
    def told(path: str) -> dict[str, Any]:
        found = gateway.get(DETAILS + path, headers=VIEWER)
        assert found.status_code == 200, found.text
        answer: dict[str, Any] = found.json()
        assert (answer["service"], answer["errors"]) == ("west", [])
        return answer

    flow, span = str(FOREIGN), TimeRange(0, now_ms())
    topic = theirs.topics(flow, span).rows[0].topic
    assert told("?days=1")["flow"]["service"] == "west"
    topics = told("/topics?limit=1&offset=1&order=-topic")
    assert (topics["total"], [one["topic"] for one in topics["topics"]]) == (SHAPE.topics, [topic])
    assert told(f"/topics/{topic}")["topic"]["topic"] == topic
    assert told(f"/partitions?topic={topic}")["total"] == SHAPE.partitions
    assert told("/groups")["total"] == theirs.groups(flow).total
    runs = told("/runs?limit=2")
    assert [one["run_id"] for one in runs["runs"]] == [row.run_id for row in theirs.runs(flow, limit=2).rows]
    assert [one["url"] for one in runs["runs"]] == [None, None]
    assert told("/decisions")["total"] > 0
    assert told("/plan")["computed_ms"] is not None
    for path in (f"/metrics/byte-rate?topic={topic}", "/metrics/byte-rate"):
        assert told(path)["points"] != []
    by_name = gateway.get(f"/api/v2/cluster-metrics/{FOREIGN.source}/{FOREIGN.target}/byte-rate", headers=VIEWER)
    assert by_name.json()["flow"] == flow


def test_what_the_other_refuses_is_refused_here(gateway: TestClient) -> None:
    for path, status, code in (
        ("/topics/nix", 404, "unknown_topic"),
        ("/topics/..%2F..", 404, "not_found"),
        ("/topics?from_ms=2&to_ms=1", 422, "invalid_range"),
        ("/topics?limit=0", 422, "invalid_parameter"),
    ):
        found = gateway.get(DETAILS + path, headers=VIEWER)
        assert (found.status_code, found.json()["errors"][0]["code"]) == (status, code), found.text
    nobody = gateway.get("/api/v2/flows/east/nowhere/topics", headers=VIEWER)
    assert (nobody.status_code, nobody.json()["errors"][0]["code"]) == (404, "unknown_flow")


def test_a_service_that_was_not_queried_in_time_is_not_skipped(theirs: MetricsStore, tmp_path: Path) -> None:
    """What keeps a gateway's threads busy may be other services, or a cluster."""
    file = tmp_path / "gateway.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
        "service.gateway.enabled = true\nservice.peers.timeout.seconds = 0.1\n"
    )
    configuration = load_configuration(file)
    freed, waiting = threading.Event(), threading.Event()
    with served(theirs, tmp_path) as address:
        peer = Advertisement.of("west", address.removesuffix("/metrics"), ["b"], 1000)

        def found(cluster: ClusterSettings, *, timeout_seconds: float) -> tuple[list[Advertisement], list[str]]:
            if cluster.alias == "b":
                waiting.set()
                freed.wait(60)
            return [replace(peer, seen_ms=now_ms())], []

        peers = Peers(lambda: configuration, found, threads=1)
        peers.ask("/api/v2/health", (), HealthAnswer)  # it may be too early for its answer
        assert waiting.wait(60)
        with pytest.raises(PeerError, match="was not queried: too many other requests"):
            peers.ask_one(peer, "/api/v2/health", (), HealthAnswer)
        freed.set()
        file.write_text(file.read_text().replace("seconds = 0.1", "seconds = 60"))
        configuration = load_configuration(file)
        assert peers.ask_one(peer, "/api/v2/health", (), HealthAnswer).services == []


def test_own_and_hidden_flows_are_not_asked_for_elsewhere(gateway: TestClient) -> None:
    own = gateway.get(f"/api/v2/flows/{OWN.source}/{OWN.target}/topics", headers=VIEWER).json()
    assert (own["total"], own["service"]) == (0, None)
    hidden = gateway.get(f"/api/v2/flows/{HIDDEN.source}/{HIDDEN.target}/topics", headers=VIEWER)
    assert hidden.status_code == 403
    assert gateway.get(DETAILS + "/topics").status_code == 401
    assert gateway.get(DETAILS + "/topics?local=true", headers=VIEWER).status_code == 404
