"""``make demo-failover`` in a clone that has never run anything: a cluster dies, and consumers move by DAGs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.fresh_clone import FreshClone, living

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[FreshClone]:
    made = FreshClone(tmp_path / "clone")
    yield made
    made.close()


def test_it_gets_as_far_as_the_failover_and_what_it_leaves_when_killed_is_ended_by_demo_stop(clone: FreshClone) -> None:
    with clone.running("demo-failover") as demo:
        demo.wait_for("waiting for 2 runs of srm.east.west to succeed: http")
        demo.wait_for("East dies")
        demo.wait_for(r"watch it: http://\S+/dags/srm.failover/runs/")
        started = demo.started()
        demo.kill()
        stopped = clone.make("demo-stop")
    assert stopped.stdout == "the demo has ended\n", stopped.stderr
    assert living(started) == []
    assert not clone.demo_folder.exists()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_order_is_read_though_a_cluster_dies_and_once_more_right_after(clone: FreshClone) -> None:
    for _ in range(2):
        # In a pipe nobody is waited for: the demo approves by itself, and ends by itself.
        told = clone.make("demo-failover", timeout_seconds=3000)
        assert told.returncode == 0, told.stdout + told.stderr
        assert clone.make("demo-stop").stdout == "no demo is running\n"
        for page in ("srm.failover", "srm.failback"):
            assert re.search(rf"watch it: http://\S+/dags/{page}/runs/", told.stdout), told.stdout
        assert told.stdout.count("approve it: ") == 2
        found = re.search(r"(\d+) orders were acknowledged, at either cluster; billing has read (\d+)", told.stdout)
        assert found is not None, told.stdout
        assert found[1] == found[2]
        assert int(found[1]) > 0
