"""The scheduler, seen from inside Airflow's API server: DAGs, runs and variables of its own database.

These modules are internal to Airflow and may change; only this file, :mod:`srm_common.airflow_bridge.web.permissions`
and :mod:`srm_common.airflow_bridge.web.web_app` use them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from airflow.models.dag import DagModel, DagTag
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, ParamValidationError
from airflow.sdk.execution_time.xcom import XCom
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, selectinload

from srm_common.domain.filters.flow_filters import in_environment
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import FLOW_TAG, MISCONFIGURED_TAG, flow_of
from srm_common.domain.monitoring.schedule import (
    ScheduledFlow,
    ScheduledRun,
    new_run_id,
    waits_for_slot,
    waits_for_worker,
)
from srm_common.errors import AirflowError
from srm_common.rest.ports import Caller

_RETURN_VALUE = "return_value"
_AT_WORK = (
    TaskInstanceState.RUNNING,
    TaskInstanceState.RESTARTING,
    TaskInstanceState.DEFERRED,
    TaskInstanceState.UP_FOR_RETRY,
    TaskInstanceState.UP_FOR_RESCHEDULE,
)


class AirflowScheduler:
    """Raises :class:`AirflowError` from every method: the database does not respond, or Airflow refuses."""

    def flows(self) -> list[ScheduledFlow]:
        with _session() as session:
            mine = DagModel.tags.any(DagTag.name == FLOW_TAG)
            wanted = select(DagModel).where(mine, ~DagModel.is_stale).order_by(DagModel.dag_id)
            dags = session.scalars(wanted.options(selectinload(DagModel.tags))).all()
            ids = [dag.dag_id for dag in dags]
            active = select(DagRun.dag_id, DagRun.run_id, DagRun.start_date).where(
                DagRun.dag_id.in_(ids), DagRun.state == DagRunState.RUNNING
            )
            running = {row.dag_id: row for row in session.execute(active)}
            stuck, waiting = _waiting_in_vain(session, ids), _waiting(session, ids)
            found = ((dag, flow_of({tag.name for tag in dag.tags})) for dag in dags)
            return [
                _flow(flow, dag, running.get(dag.dag_id), stuck.get(dag.dag_id), waiting.get(dag.dag_id))
                for dag, flow in found
                if flow is not None
            ]

    def set_paused(self, flow: FlowName, paused: bool, caller: Caller) -> None:
        with _session() as session:
            dag = session.get(DagModel, flow.dag_id)
            if dag is None:
                raise _no_dag(flow.dag_id)
            dag.is_paused = paused
            _note(session, "pause" if paused else "unpause", flow.dag_id, caller, {"is_paused": paused})

    def is_paused(self, dag_id: str) -> bool:
        with _session() as session:
            return bool(_startable(session, dag_id).is_paused)

    def trigger(self, dag_id: str, conf: Mapping[str, Any], note: str, caller: Caller) -> ScheduledRun:
        with _session() as session:
            _startable(session, dag_id)
            dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
            if dag is None:
                raise _no_dag(dag_id)
            now = datetime.now(UTC)
            run_id = new_run_id("srm", now)
            try:
                run = dag.create_dagrun(
                    run_id=run_id,
                    run_after=now,
                    conf=dict(conf),
                    run_type=DagRunType.MANUAL,
                    triggered_by=DagRunTriggeredByType.REST_API,
                    triggering_user_name=caller.name,
                    state=DagRunState.QUEUED,
                    note=note or None,
                    session=session,
                )
            except (ParamValidationError, ValueError) as error:
                raise AirflowError(f"Airflow could not start a run of {dag_id}: {_first_line(error)}") from error
            _note(session, "trigger_dag_run", dag_id, caller, {"run_id": run_id, "conf": dict(conf)})
            return _run(run)

    def run(self, dag_id: str, run_id: str) -> ScheduledRun | None:
        with _session() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
            if run is None:
                return None
            found = (
                select(TaskInstance.task_id, TaskInstance.state)
                .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
                .order_by(TaskInstance.start_date.is_(None), TaskInstance.start_date, TaskInstance.task_id)
            )
            states = {row.task_id: row.state for row in session.execute(found)}
            return _run(run, tuple((task, None if state is None else str(state)) for task, state in states.items()))

    def run_url(self, dag_id: str, run_id: str) -> str | None:
        return _run_url(dag_id, run_id)

    def results(self, dag_id: str, run_id: str, key: str = _RETURN_VALUE) -> dict[str, Any]:
        with _session() as session:
            rows: Any = session.execute(XComModel.get_many(run_id=run_id, key=key, dag_ids=dag_id)).scalars()
            return {row.task_id: _value(row) for row in rows}

    def variable(self, name: str) -> str | None:
        """As tasks find it: the environment and secrets backends come before the database."""
        try:
            found = Variable.get_variable_from_secrets(key=name)
        except (AirflowException, PermissionError) as error:
            raise AirflowError(f"Airflow variable {name} cannot be read: {_first_line(error)}") from error
        if found is None:
            # Airflow only logs what a backend, its database among them, says instead of an answer.
            with _session() as session:
                if session.scalar(select(Variable.key).where(Variable.key == name)) is not None:
                    raise AirflowError(
                        f"Airflow variable {name} exists but cannot be read; the API server's log says why"
                    )
        return found

    def set_variable(self, name: str, value: str, description: str, caller: Caller) -> None:
        variable = in_environment(name)
        if variable in os.environ:
            raise AirflowError(f"environment variable {variable} overrides the filters in Airflow; edit it there")
        with _session() as session:
            Variable.set(name, value, description=description, session=session)
            _note(session, "patch_variable", None, caller, {"key": name})


@contextmanager
def _session() -> Iterator[Session]:
    try:
        # Not the thread's own session: a route may be active on that one.
        with create_session(scoped=False) as session:
            yield session
    except SQLAlchemyError as error:
        raise AirflowError(f"Airflow's database does not respond: {_first_line(error)}") from error


def _value(row: XComModel) -> Any:
    """What a task left, also where Airflow's XCom backend keeps it elsewhere and the database has a reference to it."""
    value = XComModel.deserialize_value(row)
    if XCom is BaseXCom:
        return value
    kept = SimpleNamespace(key=row.key, value=value, task_id=row.task_id, dag_id=row.dag_id, run_id=row.run_id)
    try:
        return XCom.deserialize_value(kept)
    except Exception as error:  # of whatever the backend is
        raise AirflowError(
            f"Airflow's XCom backend {XCom.__name__} does not return what task {row.task_id} of run {row.run_id} left: "
            f"{_first_line(error)}; the task's log has it"
        ) from error


def _startable(session: Session, dag_id: str) -> DagModel:
    """Raises :class:`AirflowError` for a DAG whose runs Airflow's scheduler would leave queued for ever."""
    dag = session.get(DagModel, dag_id)
    if dag is None or dag.is_stale:
        raise _no_dag(dag_id)
    if dag.has_import_errors:
        raise AirflowError(f"the DAG file of {dag_id} has import errors, which Airflow's list of DAGs shows; mend them")
    return dag


def _waiting_in_vain(session: Session, dag_ids: Sequence[str]) -> dict[str, str]:
    """Why runs of DAGs do not continue, by DAG: Airflow never starts a task of a pool that does not exist, and says so
    in the scheduler's log only."""
    waiting = select(TaskInstance.dag_id, TaskInstance.task_id, TaskInstance.pool).where(
        TaskInstance.dag_id.in_(dag_ids),
        TaskInstance.state == TaskInstanceState.SCHEDULED,
        TaskInstance.pool.not_in(select(Pool.pool)),
    )
    return {
        row.dag_id: f"task {row.task_id} waits for pool '{row.pool}', which Airflow does not have (airflow.pool); "
        f"create it with: airflow pools set {row.pool} 1 'Spark jobs'"
        for row in session.execute(waiting)
    }


def _waiting(session: Session, dag_ids: Sequence[str]) -> dict[str, tuple[int | None, str]]:
    """Since when, and for what, runs wait of which no task is active, by DAG."""
    found = (
        select(TaskInstance.dag_id, TaskInstance.task_id, TaskInstance.pool, TaskInstance.state)
        .add_columns(TaskInstance.scheduled_dttm, TaskInstance.queued_dttm)
        .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
        .where(DagRun.dag_id.in_(dag_ids), DagRun.state == DagRunState.RUNNING)
        .where(TaskInstance.state.in_((*_AT_WORK, TaskInstanceState.SCHEDULED, TaskInstanceState.QUEUED)))
        .order_by(TaskInstance.scheduled_dttm, TaskInstance.task_id)
    )
    waiting: dict[str, tuple[int | None, str]] = {}
    at_work = set()
    for row in session.execute(found):
        if row.state in _AT_WORK:
            at_work.add(row.dag_id)
        elif row.state == TaskInstanceState.QUEUED:
            waiting.setdefault(row.dag_id, (_ms(row.queued_dttm), waits_for_worker(row.task_id)))
        else:
            waiting.setdefault(row.dag_id, (_ms(row.scheduled_dttm), waits_for_slot(row.task_id, row.pool)))
    return {dag_id: one for dag_id, one in waiting.items() if dag_id not in at_work}


def _flow(
    flow: FlowName, dag: DagModel, running: Any, stuck: str | None, waiting: tuple[int | None, str] | None
) -> ScheduledFlow:
    return ScheduledFlow(
        flow,
        dag.dag_id,
        paused=bool(dag.is_paused),
        misconfigured=dag.description if any(tag.name == MISCONFIGURED_TAG for tag in dag.tags) else stuck,
        running_since_ms=None if running is None else _ms(running.start_date),
        running_run_id=None if running is None else running.run_id,
        next_run_ms=_ms(dag.next_dagrun_create_after),
        dag_url=f"/dags/{quote(dag.dag_id, safe='')}",
        waiting_since_ms=None if waiting is None else waiting[0],
        waiting=None if waiting is None else waiting[1],
    )


def _run(run: DagRun, tasks: tuple[tuple[str, str | None], ...] = ()) -> ScheduledRun:
    return ScheduledRun(
        run.dag_id,
        run.run_id,
        # An enumeration whose text is not its value.
        str(getattr(run.state, "value", run.state)),
        _ms(run.start_date),
        _ms(run.end_date),
        dict(run.conf or {}),
        tasks,
        _run_url(run.dag_id, run.run_id),
    )


def _run_url(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def _note(session: Session, event: str, dag_id: str | None, caller: Caller, extra: Mapping[str, Any]) -> None:
    """Among Airflow's audit logs, under the names that its own API has for the same."""
    session.add(Log(event=event, dag_id=dag_id, owner=caller.name, extra=json.dumps({**extra, "by": "Replications"})))


def _no_dag(dag_id: str) -> AirflowError:
    return AirflowError(f"this Airflow has no DAG {dag_id}; is its DAG file parsed, and the flow in the file?")


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
