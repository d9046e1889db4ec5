"""What is asked for before it exists: a server that does not listen yet, a DAG that is not parsed yet, a run's end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from srm_common.errors import LocalAirflowError
from srm_common.testing.airflow_client import AirflowClient
from srm_common.testing.ports import LOOPBACK, ReservedPort


class SlowParser(BaseHTTPRequestHandler):
    """An Airflow that has parsed its DAG when it is asked for the third time."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self._answer(201, {"access_token": "token"})

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/api/v2/importErrors":
            self._answer(200, {"import_errors": ["a misspelt word"]})
        elif self.path == "/api/v2/dags/srm.a.b" and self.asked.count(self.path) > 2:
            self._answer(200, {"dag_id": "srm.a.b"})
        else:
            self._answer(404, {"detail": "not found"})

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    port = ReservedPort()
    yield port
    port.release()


def test_a_dag_is_waited_for_and_so_is_a_server(port: ReservedPort) -> None:
    client = AirflowClient(f"http://{port.address}", "admin", "admin")
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(client.wait_for_dag("srm.a.b")))
    waiting.start()
    waiting.join(1.0)
    assert found == []
    assert waiting.is_alive(), "nobody listens yet"
    with ThreadingHTTPServer((LOOPBACK, port.number), SlowParser) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        waiting.join(120)
        assert found == [{"dag_id": "srm.a.b"}]
        with pytest.raises(LocalAirflowError) as failure:
            client.wait_for_dag("srm.c.d", timeout_seconds=1)
        server.shutdown()
    assert str(failure.value).startswith("waited 1 s for Airflow to parse the DAG srm.c.d; import errors: ['a misspelt")


class BusyServer(BaseHTTPRequestHandler):
    """An Airflow whose answer about a run breaks off: at first before any state, then after the state of a run that
    has not ended."""

    followed: ClassVar[int] = 0

    def do_POST(self) -> None:
        self._answer(201, b'{"access_token": "token"}')

    def do_GET(self) -> None:
        assert self.path.startswith("/api/v2/dags/srm.a.b/dagRuns/manual__2026%2B1")
        if self.path.endswith("/wait?interval=0.5"):
            BusyServer.followed += 1
            if BusyServer.followed == 1:
                self._answer(503, b"busy")
            else:
                self._answer(200, b'{"state": "running"}\n', length=100)
        else:
            self._answer(200, json.dumps({"state": "success" if self.followed > 2 else "running"}).encode())

    def _answer(self, status: int, text: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_run_is_waited_for_although_the_answer_breaks_off(
    port: ReservedPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A company's proxy, which is not to be asked for what is on this machine.
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer((LOOPBACK, port.number), BusyServer) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        client = AirflowClient(f"http://{port.address}", "admin", "admin")
        assert client.wait_for_run("srm.a.b", "manual__2026+1") == "success"
        assert BusyServer.followed == 3
        server.shutdown()
