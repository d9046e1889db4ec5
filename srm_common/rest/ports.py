"""The ports of the web app: authentication and a scheduler. Airflow's plugin has one implementation of each,
``srm-control serve`` another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Protocol

from fastapi import Request

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import ScheduledFlow, ScheduledRun


class Right(StrEnum):
    """Airflow's roles: a viewer reads, a user triggers (run, pause, resume), an op edits (filters, offsets, moves)."""

    READ = "read"
    TRIGGER = "trigger"
    EDIT = "edit"


class Caller(Protocol):
    """The caller."""

    @property
    def name(self) -> str: ...

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        """``flow`` None: for any flow at all."""
        ...

    def readable(self, flows: Collection[FlowName]) -> set[FlowName]: ...


class Access(Protocol):
    def caller(self, request: Request) -> Caller:
        """Raises :class:`srm_common.rest.faults.ApiError` (401) without a login."""
        ...


class Scheduler(Protocol):
    """Airflow, from inside or from outside. Methods raise :class:`srm_common.errors.AirflowError`."""

    def flows(self) -> list[ScheduledFlow]: ...

    def set_paused(self, flow: FlowName, paused: bool, caller: Caller) -> None: ...

    def is_paused(self, dag_id: str) -> bool:
        """Whether runs of a DAG stay queued; an error if there is no DAG of which runs could begin."""
        ...

    def trigger(self, dag_id: str, conf: Mapping[str, Any], note: str, caller: Caller) -> ScheduledRun: ...

    def run(self, dag_id: str, run_id: str) -> ScheduledRun | None: ...

    def run_url(self, dag_id: str, run_id: str) -> str | None: ...

    def results(self, dag_id: str, run_id: str, key: str = "return_value") -> Mapping[str, Any]:
        """XCom values that the tasks of a run returned under ``key``, by task id."""
        ...

    def variable(self, name: str) -> str | None: ...

    def set_variable(self, name: str, value: str, description: str, caller: Caller) -> None: ...
