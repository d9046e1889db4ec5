"""A run with passwords on both sides, in Spark, leaves them nowhere that others can read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from srm_common.testing import LocalKafka
from srm_common.testing.logins import client_properties
from tests.kafka.flows import Seen
from tests.kafka.records import produce, read_all

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
#: Looked for as they are; no part of them is a word.
CANARIES = {"source": "c4n4ry-of-the-source", "target": "c4n4ry-of-the-target"}
RUN_SECONDS = 240


@pytest.fixture(scope="module")
def kafkas() -> Iterator[dict[str, LocalKafka]]:
    both = {side: LocalKafka(name=side, logins={"srm": secret}) for side, secret in CANARIES.items()}
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(LocalKafka.start, both.values()))
        for kafka in both.values():
            rights = [
                AclBinding(kind, name, ResourcePatternType.LITERAL, "User:srm", "*", AclOperation.ALL, allowed)
                for allowed in (AclPermissionType.ALLOW,)
                for kind, name in (
                    (ResourceType.TOPIC, "*"),
                    (ResourceType.GROUP, "*"),
                    (ResourceType.TRANSACTIONAL_ID, "*"),
                    (ResourceType.BROKER, "kafka-cluster"),
                )
            ]
            for answer in kafka.admin().create_acls(rights).values():
                answer.result(60)
        yield both
    finally:
        for kafka in both.values():
            kafka.close()


def test_passwords_are_in_no_log_command_line_environment_file_or_topic(
    kafkas: dict[str, LocalKafka], tmp_path: Path, name: str
) -> None:
    kafkas["source"].create_topic(name, 2)
    produce(kafkas["source"], name, 0, [Seen(b"k", b"v", (), int(time.time() * 1000))] * 300)
    before = time.time()
    configuration = _configuration(kafkas, tmp_path, name)
    places = {one: tmp_path / one for one in ("events", "conf", "temporary", "data")}
    for place in places.values():
        place.mkdir()
    (places["conf"] / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {places['events'].as_uri()}\n"
        "spark.ui.enabled true\nspark.ui.port 0\n"
    )
    seen: dict[str, str] = {}
    printed = ""
    for program in (
        ("srm_common.cli.main", "run"),
        ("srm_common.spark_jobs.verify", "--against", "source", "--master", "local[2]"),
    ):
        run = subprocess.Popen(
            [sys.executable, "-m", *program, "--config", str(configuration), "--flow", "a->b"],
            env={one: value for one, value in os.environ.items() if not one.startswith(("PYSPARK", "SPARK"))}
            | {
                "PYTHONPATH": str(ROOT),
                "SPARK_CONF_DIR": str(places["conf"]),
                "TMPDIR": str(places["temporary"]),
                "XDG_DATA_HOME": str(places["data"]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        of_run, programs = _processes_of(run)
        of_run = {f"{program[0]}: {where}": text for where, text in of_run.items()}
        output, _ = run.communicate(timeout=60)
        assert run.returncode == 0, output
        assert {"java"} < programs, "Spark has worked"
        seen |= of_run
        printed += output
    assert "a->b: no difference in 3 partitions" in printed, printed
    # They are found where they are: brokers know their users by name and password.
    assert _canary_in((kafkas["source"].directory / "node-1" / "server.properties").read_bytes())
    found = [where for where, text in seen.items() if _canary_in(text)]
    found += ["what was printed"] if _canary_in(printed) else []
    for place in (*places.values(), kafkas["source"].directory, kafkas["target"].directory):
        found += [str(path) for path in _files(place, before) if _canary_in(path.read_bytes())]
    assert any(places["events"].iterdir()), "Spark has kept an event log"
    for side, kafka in kafkas.items():
        for topic in kafka.admin().list_topics(timeout=60).topics:
            if not topic.startswith("__"):
                found += [f"{side} {topic}"] if _canary_in(str(read_all(kafka, topic))) else []
    assert found == []


def _configuration(kafkas: dict[str, LocalKafka], folder: Path, topic: str) -> Path:
    secrets = folder / "secrets.properties"
    secrets.write_text("".join(f"{side}={secret}\n" for side, secret in CANARIES.items()))
    properties: dict[str, object] = {
        "clusters": "a, b",
        "a->b.enabled": "true",
        "a->b.topics": topic,
        "tasks.max": 2,
        "replication.factor": -1,
        "spark.min.bytes": 0,
        "metrics.topic.enabled": "true",
    }
    for alias, side in (("a", "source"), ("b", "target")):
        login = client_properties("srm", f"${{file:{secrets}:{side}}}")
        properties |= {f"{alias}.{key}": value for key, value in login.items()}
        properties[f"{alias}.bootstrap.servers"] = kafkas[side].bootstrap_servers
    file = folder / "srm.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return file


def _processes_of(run: subprocess.Popen[str]) -> tuple[dict[str, str], set[str]]:
    """Command lines and environments of all that the run has started, until it ends, and the names of the programs."""
    seen: dict[str, str] = {}
    programs = set()
    deadline = time.monotonic() + RUN_SECONDS
    while run.poll() is None:
        assert time.monotonic() < deadline
        for process in psutil.Process(run.pid).children(recursive=True) if psutil.pid_exists(run.pid) else ():
            try:
                words = process.cmdline()
                seen[f"command line of {process.pid}"] = " ".join(words)
                seen[f"environment of {process.pid}"] = str(process.environ())
                programs.add(process.name())
            except psutil.Error:
                continue  # it has ended
        time.sleep(0.05)
    return seen, programs


def _files(folder: Path, since: float) -> list[Path]:
    """Files written since then, but for the brokers' own settings, which have the passwords of their users."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name != "server.properties" and path.stat().st_mtime >= since
    ]


def _canary_in(text: str | bytes) -> bool:
    data = text.encode() if isinstance(text, str) else text
    return any(secret.encode() in data for secret in CANARIES.values())
