"""A real Prometheus, configured as docs/monitoring.md says: it scrapes with the token, and its rules alert."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.history import Scenario, Shape, flow_names, reports
from bench.scraping import served
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.serving.logins import BasicAccess, Logins
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing.ports import ReservedPort

DOCS = Path(__file__).parents[3] / "docs"
SHAPE = Shape(flows=len(Scenario), topics=2, partitions=2, groups=3, days=0.15, interval_seconds=900)
TOKEN = "s3cret"
WAIT_SECONDS = 120

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus; scripts/setup.sh --tests")


def documented() -> dict[str, Any]:
    """The scrape configuration of the page."""
    text = (DOCS / "monitoring.md").read_text()
    blocks = text.split("```yaml\n")[1:]
    found: dict[str, Any] = yaml.safe_load(
        next(block for block in blocks if "scrape_configs" in block).partition("```")[0]
    )
    return found


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    store = MetricsStore(f"sqlite:///{tmp_path}/metrics.db")
    for report in reports(replace(SHAPE, end_ms=now_ms())):
        store.write(report)
    with served(store, tmp_path, f"metrics.prometheus.token = {TOKEN}\n", BasicAccess(Logins([]))) as address:
        yield address
    store.close()


@pytest.fixture
def prometheus(service: str, tmp_path: Path) -> Iterator[str]:
    """Its address."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    configuration = documented()
    (job,) = configuration["scrape_configs"]
    job["scrape_interval"] = "5s"
    job["metrics_path"] = "/metrics"
    job["authorization"]["credentials_file"] = str(tmp_path / "token")
    job["static_configs"] = [{"targets": [urllib.parse.urlsplit(service).netloc]}]
    configuration["rule_files"] = [str(DOCS / "monitoring" / name) for name in configuration["rule_files"]]
    configuration["global"] = {"evaluation_interval": "1s"}
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    port = ReservedPort()
    command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={tmp_path}/tsdb"]
    command += [f"--web.listen-address={port.address}"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        yield f"http://{port.address}"
        process.terminate()
        process.wait(300)
    port.release()


def query(prometheus: str, expression: str) -> list[dict[str, str]]:
    """The labels of what it finds, nothing while it does not respond."""
    url = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return [one["metric"] for one in json.load(answer)["data"]["result"]]
    except OSError:
        return []


def test_prometheus_scrapes_and_alerts(prometheus: str, tmp_path: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (lost := query(prometheus, 'ALERTS{alertname="ReplicationLostData",alertstate="firing"}')):
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.2)
    name = flow_names(SHAPE.flows)[list(Scenario).index(Scenario.LOST)]
    assert [(one["source"], one["target"]) for one in lost] == [(name.source, name.target)]
    flows = {(one["source"], one["target"]) for one in query(prometheus, "srm_flow_health")}
    assert flows == {(flow_name.source, flow_name.target) for flow_name in flow_names(SHAPE.flows)}
    assert len(query(prometheus, "srm_partition_position")) == SHAPE.flows * SHAPE.topics * SHAPE.partitions
