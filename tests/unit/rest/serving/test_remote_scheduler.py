"""The scheduler of a remote Airflow, where its answers are about time; against a real one in tests/airflow."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from srm_common.airflow_rest import AirflowRest
from srm_common.errors import AirflowError
from srm_common.rest.serving.remote_scheduler import RemoteScheduler


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

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


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
