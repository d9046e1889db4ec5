"""What a gateway makes of another service's flows; that it finds services in Kafka is tested with brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from bench.history import Shape, Story, flow_names, reports
from bench.scraping import served
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.service_advertisement import Advertisement
from srm_common.rest.app import House, create_app
from srm_common.rest.peers.gateway import Peers
from srm_common.rest.ranges import now_ms
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from tests.unit.rest.people import HEADER, HeaderAccess

SHAPE = Shape(flows=len(Story), topics=2, partitions=1, groups=1, days=0.05)
NAMES = flow_names(SHAPE.flows)
HIDDEN, OWN = NAMES[:2]
VIEWER = {HEADER: "viewer"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """With one flow of its own that the other service has reports of, too, and one that its callers may not see."""
    folder = tmp_path_factory.mktemp("gateway")
    theirs = MetricsStore(f"sqlite:///{folder}/theirs.db")
    for report in reports(replace(SHAPE, end_ms=now_ms())):
        theirs.write(report)
    aliases = sorted({alias for name in NAMES for alias in (name.source, name.target)})
    file = folder / "gateway.properties"
    file.write_text(
        f"clusters = {', '.join(aliases)}\n"
        + "".join(f"{alias}.bootstrap.servers = {alias}:9092\n" for alias in aliases)
        + f"{OWN}.enabled = true\nservice.gateway.enabled = true\nservice.peers.timeout.seconds = 60\n"
    )
    configuration = load_configuration(file)
    own = MetricsStore(f"sqlite:///{folder}/own.db")
    app = create_app(House(HeaderAccess(hidden=[HIDDEN]), own, None, lambda: configuration))
    with served(theirs, folder) as address:
        other = Advertisement.of("west", address.removesuffix("/metrics"), ["west"], 1000)

        def found(cluster: ClusterSettings, *, timeout_seconds: float) -> tuple[list[Advertisement], list[str]]:
            return [replace(other, seen_ms=now_ms())], []

        app.state.peers = Peers(lambda: configuration, read=found)
        yield TestClient(app)
    theirs.close()
    own.close()


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
    lost = NAMES[list(Story).index(Story.LOST)]
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
