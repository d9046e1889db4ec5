"""The scheduler of a remote Airflow, through its REST API."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from srm_common.airflow_rest import AirflowRest
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import FLOW_TAG, MISCONFIGURED_TAG, flow_of
from srm_common.domain.monitoring.schedule import ScheduledFlow, ScheduledRun
from srm_common.errors import AirflowError

if TYPE_CHECKING:
    # Ports are those of a web app, which is not installed where only the command line is.
    from srm_common.rest.ports import Caller

#: How long a list of flows, or the reason why there is none, is used again: every request of the page needs it, and one
#: after the other would wait for an Airflow that does not respond.
_FRESH_SECONDS = 2.0


class RemoteScheduler:
    """Does what ``airflow``'s login may do, whoever the caller is; notes say for whom. Raises :class:`AirflowError`
    from every method."""

    def __init__(self, airflow: AirflowRest, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives seconds that never go back."""
        self._airflow = airflow
        self._clock = clock
        self._lock = threading.Lock()
        self._flows: tuple[float, list[ScheduledFlow] | AirflowError] | None = None

    def flows(self) -> list[ScheduledFlow]:
        with self._lock:
            if self._flows is None or self._clock() - self._flows[0] > _FRESH_SECONDS:
                found = self._asked()
                self._flows = (self._clock(), found)
            _, found = self._flows
        if isinstance(found, AirflowError):
            raise AirflowError(str(found)) from found
        return list(found)

    def set_paused(self, flow: FlowName, paused: bool, caller: Caller) -> None:
        self._airflow.set_paused(flow.dag_id, paused)
        self._forget()

    def is_paused(self, dag_id: str) -> bool:
        return self._airflow.is_paused(dag_id)

    def trigger(self, dag_id: str, conf: Mapping[str, Any], note: str, caller: Caller) -> ScheduledRun:
        told = f"{note} ({caller.name})" if note else caller.name
        run_id = self._airflow.start_run(dag_id, told, conf=conf, by="srm")
        self._forget()
        return ScheduledRun(dag_id, run_id, "queued", None, None, dict(conf), url=self.run_url(dag_id, run_id))

    def run(self, dag_id: str, run_id: str) -> ScheduledRun | None:
        found = self._airflow.run(dag_id, run_id)
        if found is None:
            return None
        tasks = self._airflow.task_instances(dag_id, run_id)
        tasks.sort(key=lambda one: (one["start_date"] is None, one["start_date"] or "", one["task_id"]))
        return ScheduledRun(
            dag_id,
            run_id,
            str(found["state"]),
            _ms(found["start_date"]),
            _ms(found["end_date"]),
            found["conf"] or {},
            tuple((task["task_id"], task["state"]) for task in tasks),
            self.run_url(dag_id, run_id),
        )

    def run_url(self, dag_id: str, run_id: str) -> str | None:
        return f"{self._dag_url(dag_id)}/runs/{quote(run_id, safe='')}"

    def results(self, dag_id: str, run_id: str, key: str = "return_value") -> dict[str, Any]:
        return self._airflow.task_results(dag_id, run_id, key)

    def variable(self, name: str) -> str | None:
        return self._airflow.variable(name)

    def set_variable(self, name: str, value: str, description: str, caller: Caller) -> None:
        self._airflow.set_variable(name, value, description)

    def _asked(self) -> list[ScheduledFlow] | AirflowError:
        try:
            running = {run["dag_id"]: run for run in self._airflow.running_runs()}
            dags = sorted(self._airflow.dags(FLOW_TAG), key=lambda dag: str(dag["dag_id"]))
        except AirflowError as error:
            return error
        flows = [self._flow(dag, running.get(dag["dag_id"])) for dag in dags]
        return [flow for flow in flows if flow is not None]

    def _flow(self, dag: Mapping[str, Any], running: Mapping[str, Any] | None) -> ScheduledFlow | None:
        tags = {tag["name"] for tag in dag["tags"]}
        flow = flow_of(tags)
        if flow is None:
            return None
        return ScheduledFlow(
            flow,
            dag["dag_id"],
            paused=bool(dag["is_paused"]),
            misconfigured=dag["description"] if MISCONFIGURED_TAG in tags else None,
            running_since_ms=None if running is None else _ms(running["start_date"]),
            running_run_id=None if running is None else running["dag_run_id"],
            next_run_ms=_ms(dag["next_dagrun_run_after"]),
            dag_url=self._dag_url(dag["dag_id"]),
        )

    def _dag_url(self, dag_id: str) -> str:
        return f"{self._airflow.url}/dags/{quote(dag_id, safe='')}"

    def _forget(self) -> None:
        with self._lock:
            self._flows = None


def _ms(text: str | None) -> int | None:
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
