"""The scheduler of a remote Airflow, where its answers are about time; against a real one in tests/airflow."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Self

import pytest

from srm_common import airflow_rest
from srm_common.airflow_rest import AirflowRest
from srm_common.errors import AirflowError
from srm_common.rest.serving.remote_scheduler import RemoteScheduler
from tests.unit.rest.people import Person


@contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that refuses every login, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(401)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    with served(Handler) as url:
        yield url, asked


def test_an_airflow_that_does_not_answer_is_not_asked_by_each_request(refusing: tuple[str, list[str]]) -> None:
    """Those of a page come together, and each would wait for the one before it."""
    url, asked = refusing
    now = 0.0
    scheduler = RemoteScheduler(AirflowRest(url), clock=lambda: now)
    for _ in range(3):
        with pytest.raises(AirflowError, match="requires authentication"):
            scheduler.flows()
    first = len(asked)
    now = 60.0
    with pytest.raises(AirflowError):
        scheduler.flows()
    assert (first, len(asked)) == (1, 2)


def test_moves_of_the_same_millisecond_are_runs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """All flows share the DAG of a move."""
    moment = datetime(2026, 11, 21, 20, 2, 6, 826_000, tzinfo=UTC)

    class Still(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(moment.timestamp(), tz)

    runs: dict[str, object] = {}

    class Airflow(http.server.BaseHTTPRequestHandler):
        """Starts a run unless it has one of that id."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            there = body["dag_run_id"] in runs
            runs.setdefault(body["dag_run_id"], body["conf"])
            text = json.dumps(body).encode()
            self.send_response(409 if there else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    monkeypatch.setattr(airflow_rest, "datetime", Still)
    flows = [f"a{number}->b" for number in range(30)]
    with served(Airflow) as url:
        scheduler = RemoteScheduler(AirflowRest(url))
        started = {flow: scheduler.trigger("srm.failover", {"flow": flow}, "", Person("op")).run_id for flow in flows}
    assert {flow: runs[run_id] for flow, run_id in started.items()} == {flow: {"flow": flow} for flow in flows}
    assert all(run_id.startswith("srm__2026-11-21T20:02:06.826+00:00_") for run_id in runs)
