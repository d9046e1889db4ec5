"""A run of one of the DAGs that move consumer groups, seen from outside: through Airflow's REST API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from demo.stage import DemoError
from srm_common.errors import LocalAirflowError
from srm_common.testing.airflow_client import FINAL_STATES, AirflowClient

CONFIRM = "confirm"
_AT_REST = frozenset({"success", "failed", "skipped", "upstream_failed"})
_LOOK_SECONDS = 0.5


class MoveRun:
    """Creating it starts the run. All methods raise LocalAirflowError or OSError, as Airflow responds."""

    def __init__(self, airflow: AirflowClient, dag_id: str, params: dict[str, Any]) -> None:
        self._airflow = airflow
        self.dag_id = dag_id
        self.run_id = airflow.trigger(dag_id, params)

    @property
    def url(self) -> str:
        """Its page in Airflow."""
        return f"{self._airflow.url}/dags/{self.dag_id}/runs/{quote(self.run_id, safe='')}"

    @property
    def approval_url(self) -> str:
        """The page where a person approves or rejects."""
        return f"{self.url}/tasks/{CONFIRM}/required_actions"

    def answer(self, choice: str) -> None:
        """Presses a button, ``Approve`` or ``Reject``; without effect if another person was quicker."""
        body = {"chosen_options": [choice], "params_input": {}}
        try:
            self._airflow.patch(f"{self._task(CONFIRM)}/-1/hitlDetails", body)
        except LocalAirflowError as failure:
            if failure.status != 409:
                raise

    def log(self, task_id: str) -> str:
        """The log of the newest try of a task, empty before its first."""
        task = self._airflow.tasks(self.dag_id, self.run_id)[task_id]
        tries = int(task["try_number"])
        return self._airflow.log(self.dag_id, self.run_id, task_id, tries) if tries else ""

    def sentences(self, task_id: str) -> list[str]:
        """What a step reported; nothing if it was skipped."""
        try:
            entry = self._airflow.get(f"{self._task(task_id)}/xcomEntries/return_value", deserialize=True)
        except LocalAirflowError as failure:
            if failure.status == 404:
                return []
            raise
        value = entry["value"]
        return list(value["sentences"]) if isinstance(value, dict) and "sentences" in value else []

    def follow(
        self, told: Callable[[str, str], None], asked: Callable[[], None], patience_seconds: float, limit_seconds: float
    ) -> str:
        """Wait for the end; return the state. ``told`` is called with each task and the state it ended in, ``asked``
        when the run waits for a person; without a response within ``patience_seconds`` this approves by itself."""
        started = time.monotonic()
        seen: set[str] = set()
        asked_at: float | None = None
        while True:
            state = self._airflow.run_state(self.dag_id, self.run_id)
            states = self._airflow.task_states(self.dag_id, self.run_id)
            for task_id, ended in states.items():
                if ended in _AT_REST and task_id not in seen:
                    seen.add(task_id)
                    told(task_id, str(ended))
            if state in FINAL_STATES:
                return state
            if states.get(CONFIRM) == "awaiting_input":
                if asked_at is None:
                    asked_at = time.monotonic()
                    asked()
                elif time.monotonic() - asked_at > patience_seconds:
                    self.answer("Approve")
            if time.monotonic() - started > limit_seconds:
                raise DemoError(f"{self.dag_id} {self.run_id} does not end: {states}")
            time.sleep(_LOOK_SECONDS)

    def _task(self, task_id: str) -> str:
        run = quote(self.run_id, safe="")
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{run}/taskInstances/{task_id}"
