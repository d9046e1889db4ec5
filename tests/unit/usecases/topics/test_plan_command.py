"""``srm-control plan`` and ``topics`` as a person calls them: once in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.cli.main import run
from tests.unit.usecases.fakes import Sides

ROOT = Path(__file__).parents[4]


def srm_control(*arguments: str, config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "srm_common.cli.main", *arguments],
        cwd=ROOT,
        env={**os.environ, "SRM_CONFIG": str(config)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_plan_and_topics(
    steady_sides: Sides, configuration_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target, name = steady_sides.source, steady_sides.target, "orders"
    source.create_topic(name, 4, config={"retention.ms": "86400000"})
    source.create_topic(f"{name}-no")
    config = configuration_file(
        {
            "clusters": "a, b",
            "a.bootstrap.servers": source.bootstrap_servers,
            "b.bootstrap.servers": target.bootstrap_servers,
            "a->b.enabled": "true",
            "a->b.topics": name,
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
        }
    )
    done = srm_control("plan", "--flow", "a->b", config=config)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["create", f"a.{name}", "partitions", "-", "4"] in [line[:5] for line in lines]
    assert ["retention.ms", "-", "86400000"] in lines
    assert "2 replicas requested, but the target has 1 broker" in done.stdout

    def shown(*arguments: str) -> str:
        assert run(["--config", str(config), *arguments]) == 0
        return capsys.readouterr().out

    plan = json.loads(shown("plan", "--output", "json"))
    (action,) = [one for one in plan["actions"] if one["action"] != "record_topic"]
    assert (action["action"], action["topic"], action["before"]) == ("create_topic", f"a.{name}", None)
    assert action["after"]["partitions"] == 4

    decisions = {topic["topic"]: topic for topic in json.loads(shown("topics", "-o", "json"))["topics"]}
    assert decisions[name]["remote_topic"] == f"a.{name}"
    assert decisions[f"{name}-no"]["accepted"] is False
    assert [f"{name}-no", "no", "-"] in [line.split()[:3] for line in shown("topics").splitlines()]
    assert source.changes() == target.changes() == []
