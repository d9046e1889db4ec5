"""``srm-control plan`` and ``topics`` as a person calls them, on real brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[3]


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
    source_kafka: LocalKafka, target_kafka: LocalKafka, configuration_file: Callable[..., Path], name: str
) -> None:
    source_kafka.create_topic(name, partitions=4, config={"retention.ms": "86400000"})
    source_kafka.create_topic(f"{name}-no")
    config = configuration_file(
        {
            "clusters": "a, b",
            "a.bootstrap.servers": source_kafka.bootstrap_servers,
            "b.bootstrap.servers": target_kafka.bootstrap_servers,
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

    done = srm_control("plan", "--output", "json", config=config)
    plan = json.loads(done.stdout)
    (action,) = [one for one in plan["actions"] if one["action"] != "record_topic"]
    assert (action["action"], action["topic"], action["before"]) == ("create_topic", f"a.{name}", None)
    assert action["after"]["partitions"] == 4

    done = srm_control("topics", "-o", "json", config=config)
    decisions = {topic["topic"]: topic for topic in json.loads(done.stdout)["topics"]}
    assert decisions[name]["remote_topic"] == f"a.{name}"
    assert decisions[f"{name}-no"]["accepted"] is False
    done = srm_control("topics", config=config)
    assert [f"{name}-no", "no", "-"] in [line.split()[:3] for line in done.stdout.splitlines()]
