"""Airflow's REST API (v2), as far as tests and the demo need it."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from srm_common.airflow_rest import exchange
from srm_common.errors import LocalAirflowError
from srm_common.http_answers import proxies_of

FINAL_STATES = frozenset({"success", "failed"})
#: How long a busy machine may leave requests without an answer, or its SQLite refuse a second writer.
BUSY_SECONDS = 120.0


class AirflowClient:
    """Talks to one API server; logs in with the first request. Raises LocalAirflowError with the answer's text for an
    HTTP error, and after :data:`BUSY_SECONDS` without an answer.

    Shares only the sending of requests with :class:`srm_common.airflow_rest.AirflowRest`: that one gives up within
    seconds, since a person or a page waits, and its errors tell an operator what to do. This one waits for a machine
    that is busy with tests, and its errors have the HTTP status, which tests check.
    """

    def __init__(self, url: str, user: str, password: str, *, timeout_seconds: float = 60.0) -> None:
        self.url = url
        self._user = user
        self._password = password
        self._timeout_seconds = timeout_seconds
        self._token: str | None = None

    # ---- requests

    def get(self, path: str, **query: Any) -> Any:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Any) -> Any:
        return self.request("POST", path, body=body)

    def patch(self, path: str, body: Any, **query: Any) -> Any:
        return self.request("PATCH", path, body=body, query=query)

    def request(self, method: str, path: str, *, body: Any = None, query: dict[str, Any] | None = None) -> Any:
        """The decoded JSON answer, None for an empty one."""
        if self._token is None:
            login = {"username": self._user, "password": self._password}
            self._token = self._persistently("POST", "/auth/token", login, None)["access_token"]
        return self._persistently(method, path, body, query)

    def _persistently(self, method: str, path: str, body: Any, query: dict[str, Any] | None) -> Any:
        """Repeats a request after an error of the server: on a busy SQLite these come and go, and change nothing.
        Also while the server does not listen, and a GET that got no answer."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._send(method, path, body, query)
            except LocalAirflowError as failure:
                if failure.status is None or failure.status < 500 or time.monotonic() > deadline:
                    raise
            except (OSError, http.client.HTTPException) as failure:
                if method != "GET" and not _was_refused(failure):
                    raise
                if time.monotonic() > deadline:
                    raise LocalAirflowError(
                        f"waited {BUSY_SECONDS:.0f} s for Airflow at {self.url} to answer {method} {path}: {failure}"
                    ) from failure
            time.sleep(0.5)

    def _send(self, method: str, path: str, body: Any, query: dict[str, Any] | None) -> Any:
        url = self.url + path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else "")
        try:
            return exchange(method, url, body, self._token, self._timeout_seconds)
        except urllib.error.HTTPError as failure:
            said = failure.read().decode(errors="replace")[:2000]
            raise LocalAirflowError(f"{method} {path}: HTTP {failure.code} {said}", status=failure.code) from None

    def create_pool(self, name: str, slots: int, description: str = "") -> None:
        """Does nothing if there is one of that name."""
        self._create(
            "/api/v2/pools", {"name": name, "slots": slots, "description": description, "include_deferred": False}
        )

    def _create(self, path: str, body: Any) -> None:
        """Does nothing if it exists, as after a request whose answer was lost."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self.post(path, body)
                return
            except LocalAirflowError as failure:
                if failure.status == 409:
                    return
                raise
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise

    # ---- DAGs and runs

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """None while Airflow does not know it."""
        try:
            found: dict[str, Any] = self.get(f"/api/v2/dags/{dag_id}")
        except LocalAirflowError as failure:
            if failure.status == 404:
                return None
            raise
        return found

    def wait_for_dag(self, dag_id: str, timeout_seconds: float = 300.0) -> dict[str, Any]:
        """Until Airflow has parsed it: all requests about a DAG get 404 before."""
        try:
            found: dict[str, Any] = wait_until(
                lambda: self.dag(dag_id), timeout_seconds, f"Airflow to parse the DAG {dag_id}"
            )
        except LocalAirflowError as failure:
            errors = self.get("/api/v2/importErrors")["import_errors"]
            raise LocalAirflowError(f"{failure}; import errors: {errors}", status=failure.status) from None
        return found

    def reparse(self, dag_id: str) -> None:
        """Asks for a parse of the DAG's file as soon as possible, and does not wait for it."""
        self.request("PUT", f"/api/v2/parseDagFile/{self.get(f'/api/v2/dags/{dag_id}')['file_token']}")

    def pause(self, dag_id: str) -> None:
        self.patch(f"/api/v2/dags/{dag_id}", {"is_paused": True})

    def unpause(self, dag_id: str) -> None:
        self.patch(f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, params: dict[str, Any] | None = None) -> str:
        """Starts a run and returns its id, which is ours, so that a request without an answer can be repeated."""
        run_id = f"manual__{datetime.now(UTC).isoformat()}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": params or {}}
        self._create(f"/api/v2/dags/{dag_id}/dagRuns", body)
        return run_id

    def runs(self, dag_id: str, limit: int = 50) -> list[dict[str, Any]]:
        """The newest first."""
        found: list[dict[str, Any]] = self.get(f"/api/v2/dags/{dag_id}/dagRuns", order_by="-run_after", limit=limit)[
            "dag_runs"
        ]
        return found

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.get(_run_path(dag_id, run_id))["state"])

    def wait_for_run(self, dag_id: str, run_id: str, timeout_seconds: float = 600.0) -> str:
        """Its final state. Raises LocalAirflowError that shows the tasks' states when the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while (state := self.run_state(dag_id, run_id)) not in FINAL_STATES:
            if time.monotonic() > deadline:
                raise LocalAirflowError(
                    f"{dag_id} {run_id} is {state} after {timeout_seconds:.0f} s: {self.task_states(dag_id, run_id)}"
                )
            self._follow(_run_path(dag_id, run_id), deadline)
        return state

    def _follow(self, path: str, deadline: float) -> None:
        """Waits until the run or the answer has ended, or for the deadline; the caller then asks for the state again.

        One streamed answer with a state every half second takes the API server a quarter of the CPU that as many
        requests do; each state takes it 20 ms. Airflow calls it experimental.
        """
        request = urllib.request.Request(f"{self.url}{path}/wait?interval=0.5")
        request.add_header("Authorization", f"Bearer {self._token}")
        opener = urllib.request.build_opener(proxies_of(request.full_url))
        # A server that stops, or does not know the route: the state is asked for again.
        with (
            contextlib.suppress(OSError, http.client.HTTPException, ValueError),
            opener.open(request, timeout=self._timeout_seconds) as lines,
        ):
            for line in lines:
                if json.loads(line)["state"] in FINAL_STATES or time.monotonic() > deadline:
                    return
        time.sleep(0.2)

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Task instances of a run by task id."""
        found = self.get(f"{_run_path(dag_id, run_id)}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        return {task_id: task["state"] for task_id, task in self.tasks(dag_id, run_id).items()}

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The log of one try, one line per event."""
        answer = self.get(f"{_run_path(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}")
        return "\n".join(_log_line(event) for event in answer["content"])


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"


def wait_until(condition: Callable[[], Any], timeout_seconds: float, what: str, every_seconds: float = 0.2) -> Any:
    """The first true value of ``condition``. Raises LocalAirflowError that names ``what`` after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise LocalAirflowError(f"waited {timeout_seconds:.0f} s for {what}")
        time.sleep(every_seconds)
    return value


def _was_refused(failure: Exception) -> bool:
    """Nothing was listening, so the request cannot have had an effect."""
    return isinstance(getattr(failure, "reason", failure), ConnectionRefusedError)


def _log_line(event: Any) -> str:
    if not isinstance(event, dict):
        return str(event)
    lines = [str(event.get("event", ""))]
    for error in event.get("error_detail") or ():
        lines.append(f"{error.get('exc_type')}: {error.get('exc_value')}")
    return "\n".join(lines)
