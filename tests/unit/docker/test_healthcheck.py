"""The health checks of the containers: well, not well, and no answer at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "docker/healthcheck.py"


@pytest.fixture
def answers() -> Iterator[tuple[str, dict[str, object]]]:
    pages: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in pages else 404)
            self.end_headers()
            self.wfile.write(json.dumps(pages.get(self.path)).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", pages
    server.shutdown()
    thread.join()
    server.server_close()


def check(url: str, *arguments: str) -> tuple[int, str]:
    names = ("HEALTH_AIRFLOW_URL", "HEALTH_SPARK_MASTER_URL", "HEALTH_SPARK_WORKER_URL")
    # Docker gives containers the proxies that its client is configured with; nothing listens at this one.
    environment = {**os.environ, **dict.fromkeys(names, url), "http_proxy": "http://127.0.0.1:1"}
    for name in ("no_proxy", "NO_PROXY"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, timeout=300
    )
    return done.returncode, done.stderr


HEALTH = {"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}, "dag_processor": None}


@pytest.mark.parametrize(
    ("arguments", "page", "content", "word"),
    [
        (["airflow", "scheduler"], "/api/v2/monitor/health", HEALTH, None),
        (["airflow", "triggerer"], "/api/v2/monitor/health", HEALTH, "triggerer is unhealthy"),
        (["airflow", "dag_processor"], "/api/v2/monitor/health", HEALTH, "dag_processor is None"),
        (["spark-master"], "/json/", {"status": "ALIVE"}, None),
        (["spark-master"], "/json/", {"status": "STANDBY"}, "STANDBY"),
        (["spark-worker"], "/json/", {"masterwebuiurl": "http://master:8080"}, None),
        (["spark-worker"], "/json/", {"masterwebuiurl": ""}, "not found its master"),
        (["spark-worker"], "/elsewhere", {}, "no answer"),
    ],
)
def test_verdict(
    answers: tuple[str, dict[str, object]], arguments: list[str], page: str, content: object, word: str | None
) -> None:
    url, pages = answers
    pages[page] = content
    code, said = check(url, *arguments)
    assert code == (0 if word is None else 1)
    assert (word or "") in said


def test_nobody_there_is_a_verdict_too() -> None:
    code, said = check("http://127.0.0.1:1", "spark-master")
    assert code == 1
    assert "no answer" in said


def test_an_unknown_part_is_a_fault() -> None:
    assert check("http://127.0.0.1:1", "kafka")[0] == 1
