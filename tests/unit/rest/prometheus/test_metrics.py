"""Who may scrape, and that what is scraped is what the store has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from bench.history import Shape, reports
from srm_common.domain.flow import FlowName
from srm_common.rest.app import AppContext
from srm_common.rest.query_parameters import now_ms
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from tests.unit.rest.conftest import app_of
from tests.unit.rest.people import HEADER, HeaderAccess
from tests.unit.rest.prometheus.test_prometheus import samples

FLOW = FlowName("east", "west")
CLUSTERS = "clusters = east, west\neast.bootstrap.servers = a:1\nwest.bootstrap.servers = b:1\n"
VIEWER = {HEADER: "viewer"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsStore]:
    made = MetricsStore(f"sqlite:///{tmp_path_factory.mktemp('store')}/metrics.db")
    for report in reports(replace(Shape(2, 3, 2, groups=2, days=0.021, interval_seconds=900), end_ms=now_ms())):
        made.write(report)
    yield made
    made.close()


def client(store: MetricsStore, folder: Path, settings: str = "", access: HeaderAccess | None = None) -> TestClient:
    file = folder / "srm.properties"
    file.write_text(CLUSTERS + settings)
    configuration = load_configuration(file)
    return TestClient(app_of(AppContext(access or HeaderAccess(), lambda: store, None, lambda: configuration)))


def test_nobody_scrapes_without_a_login_or_the_token(store: MetricsStore, tmp_path: Path) -> None:
    closed = client(store, tmp_path)
    assert closed.get("/metrics").status_code == 401
    assert closed.get("/metrics", headers={"authorization": "Bearer "}).status_code == 401
    assert closed.get("/metrics", headers={HEADER: "nobody"}).status_code == 403
    assert closed.get("/metrics", headers=VIEWER).status_code == 200


def test_the_token_opens_metrics_and_nothing_else(store: MetricsStore, tmp_path: Path) -> None:
    app = client(store, tmp_path, "metrics.prometheus.token = s3cret")
    right = {"authorization": "Bearer s3cret"}
    assert app.get("/metrics", headers=right).status_code == 200
    assert app.get("/api/v2/flows", headers=right).status_code == 401
    for wrong in (b"Bearer s3cre", b"Bearer s3cret2", b"Basic s3cret", b"s3cret", b"Bearer \xe9"):
        assert app.get("/metrics", headers={b"authorization": wrong}).status_code == 401


def test_the_file_may_open_it_to_all(store: MetricsStore, tmp_path: Path) -> None:
    answer = client(store, tmp_path, "metrics.prometheus.open = true").get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_a_login_sees_its_own_flows_only(store: MetricsStore, tmp_path: Path) -> None:
    app = client(store, tmp_path, access=HeaderAccess(hidden=[FLOW]))
    text = app.get("/metrics", headers=VIEWER).text
    assert 'source="west",target="east"' in text
    assert 'source="east",target="west"' not in text


def test_the_figures_are_those_of_the_store(store: MetricsStore, tmp_path: Path) -> None:
    found = samples(client(store, tmp_path).get("/metrics", headers=VIEWER).text)

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset({"source": "east", "target": "west", **labels}.items())]

    (row,) = store.flows([str(FLOW)])
    assert row.history.lag is not None
    assert value("srm_flow_lag_records") == row.history.lag.most
    assert value("srm_flow_lag_unknown_partitions") == 0
    assert value("srm_flow_partitions") == 6
    assert value("srm_flow_last_run_records") == row.last_run.records
    partition = store.partitions(str(FLOW)).rows[0]
    place = {"topic": partition.topic, "partition": str(partition.partition)}
    assert value("srm_partition_position", **place) == partition.position
    assert value("srm_partition_source_end", **place) == partition.end
    topics = sum(number for (name, _), number in found.items() if name == "srm_topic_copied_bytes_per_second")
    flows = sum(number for (name, _), number in found.items() if name == "srm_flow_copied_bytes_per_second")
    assert topics == pytest.approx(flows)
    assert topics > 0


def test_compressed_or_not_it_is_the_same_text(store: MetricsStore, tmp_path: Path) -> None:
    app = client(store, tmp_path)
    packed = app.get("/metrics", headers={**VIEWER, "accept-encoding": "gzip"})
    plain = app.get("/metrics", headers={**VIEWER, "accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    # rates are averages up to now
    assert [line.split()[0] for line in packed.text.splitlines()] == [
        line.split()[0] for line in plain.text.splitlines()
    ]


def test_detail_is_one_of_three(store: MetricsStore, tmp_path: Path) -> None:
    app = client(store, tmp_path)
    assert "srm_topic" not in app.get("/metrics?detail=flow", headers=VIEWER).text
    refused = app.get("/metrics?detail=all", headers=VIEWER)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "detail"


def test_without_a_history_the_states_are_told_all_the_same(tmp_path: Path) -> None:
    broken = tmp_path / "metrics.db"
    broken.write_bytes(b"this is no database, and never was one" * 100)
    down = MetricsStore(f"sqlite:///{broken}")
    found = samples(client(down, tmp_path, "east->west.enabled = true").get("/metrics", headers=VIEWER).text)
    assert found["srm_store_up", frozenset()] == 0
    unknown = frozenset({"source": "east", "target": "west", "state": "unknown"}.items())
    assert found["srm_flow_health", unknown] == 1


def test_rates_are_averages_over_time_and_end_with_the_reports(store: MetricsStore, tmp_path: Path) -> None:
    """Runs every 15 minutes."""

    def rates(app: TestClient) -> dict[str, float]:
        found: dict[str, float] = {}
        for (name, inside), number in samples(app.get("/metrics", headers=VIEWER).text).items():
            of_flow = {("source", "east"), ("target", "west")} <= inside
            if of_flow and name.endswith(("copied_records_per_second", "connector_record_rate")):
                found[name] = found.get(name, 0) + number
        return found

    runs = store.runs(str(FLOW)).rows
    window = 3 * 900
    recent = [run for run in runs if run.reported_ms > now_ms() - window * 1000]
    connector = "kafka_connect_mirror_mirrorsourceconnector_record_rate"
    assert rates(client(store, tmp_path)) == {
        "srm_flow_copied_records_per_second": pytest.approx(sum(run.records for run in recent) / window),
        "srm_topic_copied_records_per_second": pytest.approx(sum(run.records for run in recent) / window),
        connector: pytest.approx(runs[0].records / ((runs[0].reported_ms - runs[1].reported_ms) / 1000)),
    }
    url = f"sqlite:///{tmp_path}/old.db"
    with closing(MetricsStore(url)) as old:
        shape = Shape(2, 3, 2, groups=2, days=0.021, interval_seconds=900)
        for one in reports(replace(shape, end_ms=now_ms() - 86_400_000)):
            old.write(one)
        found = rates(client(old, tmp_path, "east->west.enabled = true\n"))
    assert (len(found), set(found.values())) == (3, {0})
