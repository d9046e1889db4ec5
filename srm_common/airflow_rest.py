"""An Airflow, by its REST API (v2): variables, pausing and runs.

Its address and the user come from the environment: ``SRM_AIRFLOW_URL``, ``SRM_AIRFLOW_USER``, ``SRM_AIRFLOW_PASSWORD``.
The password may also be in the keyring (service ``srm-control``), where the package keyring is installed; a token that
another program created may be given in ``SRM_AIRFLOW_TOKEN``.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from srm_common.domain.monitoring.schedule import new_run_id
from srm_common.errors import AirflowError, ConfigError
from srm_common.http_answers import fetch, json_of

URL, USER, PASSWORD, TOKEN = "SRM_AIRFLOW_URL", "SRM_AIRFLOW_USER", "SRM_AIRFLOW_PASSWORD", "SRM_AIRFLOW_TOKEN"
KEYRING_SERVICE = "srm-control"
#: What Airflow shows instead of a value that it takes for a secret, going by the variable's name.
_HIDDEN = "***"
_TIMEOUT_SECONDS = 30.0
#: More than a page of runs or a variable.
_MOST_BYTES = 64 << 20
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)
_NOTHING: Mapping[int, Any] = {}
_NO_CONF: Mapping[str, Any] = {}
#: A request about one DAG, or about its runs as a whole.
_DAG = re.compile(r"/api/v2/dags/([^/?~]+)(?:/dagRuns)?(?:\?|$)")
#: Airflow's own limit (api.maximum_page_limit).
_PAGE = 100


class AirflowRest:
    """One Airflow. ``user`` None: no login, as where every visitor is an administrator. ``mend_address`` and
    ``mend_login``: what messages ask for where one of them is wrong.

    Raises:
        AirflowError: from every method: Airflow does not respond, rejects the credentials, or a permission is missing.
    """

    def __init__(
        self,
        url: str,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        mend_address: str = f"check {URL}",
        mend_login: str = f"check {USER} and {PASSWORD}",
    ) -> None:
        self.url = url.rstrip("/")
        self._mend_address = mend_address
        self._mend_login = mend_login
        self._timeout_seconds = timeout_seconds
        self.user = user
        self._password = password
        self._token = token

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> AirflowRest | None:
        """The Airflow that the environment names, None when it names none. Raises :class:`ConfigError`."""
        url = environment.get(URL, "").strip()
        if not url:
            return None
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{URL} must be an address such as http://airflow:8080")
        if "@" in parts.netloc:
            raise ConfigError(f"{URL} must not contain credentials; use {USER} and {PASSWORD}")
        user = environment.get(USER) or None
        token = environment.get(TOKEN) or None
        password = environment.get(PASSWORD) or None
        if user is not None and password is None and token is None:
            password = _from_keyring(user)
            if password is None:
                raise ConfigError(f"{USER} is '{user}', and there is no password: set {PASSWORD}")
        return cls(url, user, password, token, timeout_seconds=timeout_seconds)

    # ---- variables

    def variable(self, name: str) -> str | None:
        """The text of a variable in Airflow's database, None when there is none."""
        found = self._send("GET", f"/api/v2/variables/{_quoted(name)}", instead={404: None})
        if found is None:
            return None
        with self._of_airflow():
            text = found["value"]
        if text is None or _HIDDEN in str(text):
            raise AirflowError(
                f"Airflow at {self.url} hides the value of variable {name}, as it does with names that look secret; "
                f"edit it where Airflow runs (AIRFLOW_HOME), or rename the cluster"
            )
        return str(text)

    def set_variable(self, name: str, text: str, description: str) -> None:
        body = {"key": name, "value": text, "description": description}
        path = "/api/v2/variables"
        if self._send("PATCH", f"{path}/{_quoted(name)}", body, instead={404: None}) is None:
            # 409: there is one by now, be it by an answer that was lost; the caller reads again what is kept.
            self._send("POST", path, body, instead={409: None})

    # ---- runs

    def is_paused(self, dag_id: str) -> bool:
        found = self._send("GET", f"/api/v2/dags/{_quoted(dag_id)}")
        with self._of_airflow():
            return bool(found["is_paused"])

    def set_paused(self, dag_id: str, paused: bool) -> None:
        """Of a DAG that is paused, no run begins and no task of a run that has begun; running tasks continue."""
        self._send("PATCH", f"/api/v2/dags/{_quoted(dag_id)}", {"is_paused": paused})

    def start_run(self, dag_id: str, note: str, *, conf: Mapping[str, Any] = _NO_CONF, by: str = "srm-control") -> str:
        """Ask for a run; returns its id, which begins with ``by``. A request that is repeated asks for the same run."""
        run_id = new_run_id(by, datetime.now(UTC))
        body = {"dag_run_id": run_id, "logical_date": None, "note": note, "conf": dict(conf)}
        # 409: there is a run of this id, started by this request if its answer was lost.
        started = self._send("POST", self._runs(dag_id), body, instead={409: None}) or self.run(dag_id, run_id)
        with self._of_airflow():
            if started is None or started["dag_run_id"] != run_id or (started["conf"] or {}) != body["conf"]:
                raise AirflowError(
                    f"Airflow at {self.url} started no run of {dag_id}: it has another run {run_id}; try again"
                )
        return run_id

    def active_runs(self, dag_id: str) -> list[str]:
        """Ids of the runs that have begun, or wait to."""
        found = self._send("GET", f"{self._runs(dag_id)}?state=running&state=queued&limit=100")
        with self._of_airflow():
            return [str(run["dag_run_id"]) for run in found["dag_runs"]]

    def end_run(self, dag_id: str, run_id: str, note: str) -> None:
        """Mark a run as failed, with a note that says why; Airflow ends its tasks within seconds."""
        self._send("PATCH", f"{self._runs(dag_id)}/{_quoted(run_id)}", {"state": "failed", "note": note})

    def run(self, dag_id: str, run_id: str) -> dict[str, Any] | None:
        """A run as Airflow tells it, None when there is none."""
        found = self._send("GET", self._run(dag_id, run_id), instead={404: None})
        with self._of_airflow():
            return None if found is None else {**found}

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The tasks of a run, with their states."""
        return self._pages(f"{self._run(dag_id, run_id)}/taskInstances", "task_instances")

    def task_results(self, dag_id: str, run_id: str, key: str) -> dict[str, Any]:
        """What the tasks of a run left under ``key``, by task id."""
        run = f"{self._run(dag_id, run_id)}/taskInstances"
        listed = self._pages(f"{run}/~/xcomEntries?xcom_key={_quoted(key)}", "xcom_entries")
        found = {}
        with self._of_airflow():
            tasks = sorted({str(entry["task_id"]) for entry in listed})
        for task in tasks:
            entry = self._send("GET", f"{run}/{_quoted(task)}/xcomEntries/{_quoted(key)}", instead={404: None})
            # A task that is cleared meanwhile takes back what it left.
            if entry is not None:
                with self._of_airflow():
                    found[task] = entry["value"]
        return found

    def dags(self, tag: str) -> list[dict[str, Any]]:
        """The DAGs with a tag, as Airflow tells them."""
        return self._pages(f"/api/v2/dags?tags={_quoted(tag)}", "dags")

    def running_runs(self) -> list[dict[str, Any]]:
        """Runs of all DAGs that are active."""
        return self._pages(f"{self._runs('~')}?state=running", "dag_runs")

    def _run(self, dag_id: str, run_id: str) -> str:
        return f"{self._runs(dag_id)}/{_quoted(run_id)}"

    def _runs(self, dag_id: str) -> str:
        return f"/api/v2/dags/{_quoted(dag_id)}/dagRuns"

    # ---- requests

    def _pages(self, path: str, key: str) -> list[dict[str, Any]]:
        """All of a list, which Airflow gives in parts."""
        found: list[dict[str, Any]] = []
        while True:
            sign = "&" if "?" in path else "?"
            answer = self._send("GET", f"{path}{sign}limit={_PAGE}&offset={len(found)}")
            with self._of_airflow():
                found += [{**one} for one in answer[key]]
                if not answer[key] or len(found) >= answer["total_entries"]:
                    return found

    def _send(self, method: str, path: str, body: Any = None, *, instead: Mapping[int, Any] = _NOTHING) -> Any:
        """The decoded answer; what ``instead`` has for an HTTP error. Errors of the server are tried again: on a busy
        SQLite they come and go."""
        given = self.user is None or self._password is None
        if not given and self._token is not None:
            expired = object()
            found = self._send_as(self._token, method, path, body, {401: expired, **instead})
            if found is not expired:
                return found
            self._token = None
        if not given and self._token is None:
            login = {"username": self.user, "password": self._password}
            found = self._send_as(None, "POST", "/auth/token", login)
            with self._of_airflow():
                self._token = str(found["access_token"])
        return self._send_as(self._token, method, path, body, instead)

    def _send_as(
        self, token: str | None, method: str, path: str, body: Any = None, instead: Mapping[int, Any] = _NOTHING
    ) -> Any:
        for pause in (*_PAUSES_SECONDS, None):
            try:
                return self._request(token, method, path, body)
            except urllib.error.HTTPError as failure:
                if failure.code in instead:
                    return instead[failure.code]
                if failure.code < 500 or pause is None:
                    raise AirflowError(self._refusal(method, path, failure)) from None
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _request(self, token: str | None, method: str, path: str, body: Any) -> Any:
        try:
            return exchange(method, self.url + path, body, token, self._timeout_seconds)
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise AirflowError(f"Airflow at {self.url} did not respond: {reason}; {self._mend_address}") from error
        except ValueError:
            raise AirflowError(
                f"{self.url} is not an Airflow: {method} {path} returned no JSON; {self._mend_address}"
            ) from None

    @contextmanager
    def _of_airflow(self) -> Iterator[None]:
        """Around code that reads fields of a response, which only Airflow is sure to send."""
        try:
            yield
        except (KeyError, TypeError) as error:
            raise AirflowError(
                f"{self.url} is not an Airflow: its response has other fields; {self._mend_address}"
            ) from error

    def _refusal(self, method: str, path: str, failure: urllib.error.HTTPError) -> str:
        if failure.code == 401:
            who = f"refuses the login of '{self.user}'" if self.user else "requires authentication"
            return f"Airflow at {self.url} {who}; {self._mend_login}"
        if failure.code == 403:
            who = f"user '{self.user}'" if self.user else "an anonymous caller"
            return f"Airflow at {self.url} denies this to {who}: {method} {path} requires a permission"
        if failure.code == 404 and (dag := _DAG.match(path)):
            return (
                f"Airflow at {self.url} has no DAG {urllib.parse.unquote(dag[1])}; is the flow in its configuration "
                f"file? The DAG of a new one is there when Airflow has parsed the file again"
            )
        if 300 <= failure.code < 400:
            where = failure.headers.get("Location", "nowhere")
            return (
                f"Airflow at {self.url} redirects {method} {path} to {where}, and no redirection is followed; "
                f"{self._mend_address}"
            )
        return f"Airflow at {self.url} refuses {method} {path}: HTTP {failure.code} {_detail(failure)}".rstrip()


def exchange(method: str, url: str, body: Any, token: str | None, timeout_seconds: float) -> Any:
    """One request with a body of JSON, or none (None); the decoded answer, None for an empty one.

    Raises:
        urllib.error.HTTPError: an error status.
        OSError, http.client.HTTPException: there is no answer in time, a part of one, or more than any has.
        ValueError: the answer is no JSON.
    """
    request = urllib.request.Request(url, method=method)
    request.add_header("Accept", "application/json")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    request.data = data
    return json_of(fetch(request, seconds=timeout_seconds, most_bytes=_MOST_BYTES) or b"null")


def _detail(failure: urllib.error.HTTPError) -> str:
    text = failure.read()
    try:
        found = json_of(text)["detail"]
    except (ValueError, TypeError, KeyError):
        found = text.decode(errors="replace")
    return " ".join(str(found).split())[:300]


def _from_keyring(user: str) -> str | None:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        return None
    try:
        found: str | None = keyring.get_password(KEYRING_SERVICE, user)
    except Exception as error:  # keyrings have errors of their own, one kind for each desktop
        raise ConfigError(f"the keyring cannot provide the password of '{user}': {error}") from error
    return found


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
