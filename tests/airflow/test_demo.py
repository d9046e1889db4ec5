"""``make demo`` and ``make demo-stop``, in a clone that has never run anything."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.fresh_clone import Demo, FreshClone, living

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[FreshClone]:
    made = FreshClone(tmp_path / "clone")
    yield made
    made.close()


def assert_copies(demo: Demo) -> None:
    address = demo.wait_for("open (http://\\S+) and log in as admin with password admin")
    with urllib.request.urlopen(address[1], timeout=120) as page:
        assert page.status == 200
    demo.wait_for(r"copied: [1-9]\d*")
    for topic in ("orders", "payments", "clicks", "profiles", "sensors", "audit"):
        demo.wait_for(rf"behind: .*\b{topic} \d+")


def test_the_demo_copies_says_where_to_look_and_leaves_nothing_behind(clone: FreshClone) -> None:
    with clone.running("demo") as demo:
        assert_copies(demo)

        again = clone.make("demo")
        assert again.returncode != 0
        assert "a demo is already running" in again.stderr

        started = demo.started()
        assert len(started) > 7, "two brokers, a writer, four processes of Airflow and what they started"
        stopped = clone.make("demo-stop")
        assert stopped.stdout == "the demo has ended\n", stopped.stderr
        assert demo.process.wait(300) == 0, demo.text
    assert living(started) == []
    assert not clone.demo_folder.exists()
    assert clone.make("demo-stop").stdout == "no demo is running\n"


@pytest.mark.soak
def test_it_runs_once_more_right_after(clone: FreshClone) -> None:
    for _ in range(2):
        with clone.running("demo") as demo:
            assert_copies(demo)
            assert clone.make("demo-stop").stdout == "the demo has ended\n"
            assert demo.process.wait(300) == 0, demo.text
