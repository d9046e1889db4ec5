"""``make demo-failover``: a cluster dies amid its work, and consumers move to the other one and back by DAGs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from srm_common.testing.ports import ReservedPort

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]


def test_every_order_is_read_though_a_cluster_dies(tmp_path: Path) -> None:
    port = ReservedPort()
    environment = {
        **os.environ,
        "SRM_DEMO_FOLDER": str(tmp_path / "demo"),
        "SRM_DEMO_PORT": str(port.number),
        "PYTHONUNBUFFERED": "1",
    }

    def demo(*command: str) -> subprocess.CompletedProcess[str]:
        # In a pipe nobody is waited for: the demo approves by itself, and ends by itself.
        return subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3000
        )

    try:
        told = demo("demo.failover")
    finally:
        left = demo("demo", "stop")
        port.release()
    assert told.returncode == 0, told.stdout + told.stderr
    assert left.stdout == "no demo runs\n"
    for page in ("srm.failover", "srm.failback"):
        assert re.search(rf"watch it: http://\S+/dags/{page}/runs/", told.stdout), told.stdout
    assert told.stdout.count("approve it: ") == 2
    found = re.search(r"(\d+) orders were acknowledged, at either cluster; billing has read (\d+)", told.stdout)
    assert found is not None, told.stdout
    assert found[1] == found[2]
    assert int(found[1]) > 0
