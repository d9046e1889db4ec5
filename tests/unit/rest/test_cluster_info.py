"""The clusters of flows by Kafka's ids; what clusters answer is tested with brokers."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from srm_common.rest.app import AppContext
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import FakeCluster
from tests.unit.rest.conftest import app_of
from tests.unit.rest.people import HEADER, HeaderAccess


def test_a_cluster_that_cannot_be_queried_is_named(source_kafka: FakeCluster, tmp_path: Path) -> None:
    """Also one with a file that is not there, without which there is no client."""
    file = tmp_path / "srm.properties"
    file.write_text(
        f"clusters = east, west\neast.bootstrap.servers = {source_kafka.bootstrap_servers}\n"
        f"west.bootstrap.servers = localhost:1\nwest.security.protocol = SSL\n"
        f"west.ssl.truststore.location = {tmp_path}/missing.jks\neast->west.enabled = true\n"
    )
    configuration = load_configuration(file)
    store = MetricsStore(f"sqlite:///{tmp_path}/own.db")
    context = AppContext(HeaderAccess(), lambda: store, None, lambda: configuration)
    client = TestClient(app_of(context), headers={HEADER: "viewer"})
    answer = client.get("/api/v2/cluster-info/unheard-of")
    context.lag.close(0)
    store.close()
    assert answer.status_code == 404
    (fault,) = answer.json()["errors"]
    assert fault["code"] == "unknown_cluster"
    assert "1 cluster could not be queried: " in fault["message"]
    assert "missing.jks of cluster 'west' cannot be read" in fault["message"]
