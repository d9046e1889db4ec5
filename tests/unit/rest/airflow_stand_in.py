"""A scheduler that holds flows and runs in memory, where tests are about the web app and not about Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import ScheduledFlow, ScheduledRun
from srm_common.errors import AirflowError
from srm_common.rest.ports import Caller


class MemoryScheduler:
    """``fault``: what every question is answered with, while it is set."""

    def __init__(self, *flows: FlowName) -> None:
        self.known = {flow: ScheduledFlow(flow, flow.dag_id, paused=False) for flow in flows}
        self.started: dict[tuple[str, str], ScheduledRun] = {}
        self.variables: dict[str, str] = {}
        #: What tasks of a run left: by key, then by task.
        self.left: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        self.fault: str | None = None
        self.paused_dags: set[str] = set()

    def flows(self) -> list[ScheduledFlow]:
        self._answer()
        return list(self.known.values())

    def set_paused(self, flow: FlowName, paused: bool, caller: Caller) -> None:
        self._answer()
        self.known[flow] = replace(self.known[flow], paused=paused)

    def is_paused(self, dag_id: str) -> bool:
        self._answer()
        return dag_id in self.paused_dags

    def trigger(self, dag_id: str, conf: Mapping[str, Any], note: str, caller: Caller) -> ScheduledRun:
        self._answer()
        run = ScheduledRun(dag_id, f"srm__{len(self.started)}", "queued", None, None, dict(conf))
        self.started[dag_id, run.run_id] = run
        return run

    def run(self, dag_id: str, run_id: str) -> ScheduledRun | None:
        self._answer()
        return self.started.get((dag_id, run_id))

    def run_url(self, dag_id: str, run_id: str) -> str | None:
        return f"/dags/{dag_id}/runs/{run_id}"

    def results(self, dag_id: str, run_id: str, key: str = "return_value") -> dict[str, Any]:
        self._answer()
        return self.left.get((dag_id, run_id), {}).get(key, {})

    def variable(self, name: str) -> str | None:
        self._answer()
        return self.variables.get(name)

    def set_variable(self, name: str, value: str, description: str, caller: Caller) -> None:
        self._answer()
        self.variables[name] = value

    def _answer(self) -> None:
        if self.fault is not None:
            raise AirflowError(self.fault)
