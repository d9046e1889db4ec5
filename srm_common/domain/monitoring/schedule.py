"""Flows and runs as a scheduler, Airflow, has them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from srm_common.domain.flow import FlowName


@dataclass(frozen=True, slots=True)
class ScheduledFlow:
    """A flow as the scheduler has it. ``misconfigured``: the sentence that stops it. ``waiting_since_ms``: since when
    no task of the run that has begun is active, and ``waiting`` why not."""

    flow: FlowName
    dag_id: str
    paused: bool
    misconfigured: str | None = None
    running_since_ms: int | None = None
    running_run_id: str | None = None
    next_run_ms: int | None = None
    dag_url: str | None = None
    waiting_since_ms: int | None = None
    waiting: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A DAG run. ``state`` is Airflow's. ``tasks``: (task id, state), in their order."""

    dag_id: str
    run_id: str
    state: str
    started_ms: int | None
    ended_ms: int | None
    conf: Mapping[str, Any]
    tasks: Sequence[tuple[str, str | None]] = ()
    url: str | None = None


def new_run_id(by: str, moment: datetime) -> str:
    """The id of a run to be started by ``by``, which no other run has: the moves of all flows are runs of one DAG, and
    may be asked for in the same millisecond."""
    return f"{by}__{moment.isoformat(timespec='milliseconds')}_{secrets.token_hex(4)}"


def waits_for_slot(task: str, pool: str) -> str:
    """For a task that may begin and has not got a slot."""
    return f"task {task} waits for a slot of pool '{pool}' or of the executor"


def waits_for_worker(task: str) -> str:
    """For a task that was handed to the executor but has not started."""
    return f"task {task} waits for a worker"


def not_scheduled(flow: FlowName) -> str:
    """Why no run of a flow is scheduled that the file disables, and what to do; for people."""
    return (
        f"the file disables {flow} ({flow}.enabled = false), so no run of it is scheduled; to change that, set it to "
        f"true and unpause {flow.dag_id}"
    )
