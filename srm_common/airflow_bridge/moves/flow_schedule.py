"""The schedule of a flow's DAG, controlled by a task of another DAG: pause it, run it once, resume it.

Airflow 3.3 lets a task look at other DAGs and start runs of them. Pausing a DAG and ending a run are for users: they go
by the REST API, as the login of the Airflow connection ``srm_airflow`` (``conn_type`` http; its host may be left out
where tasks reach that API under the address of the execution API), or without one where every visitor is an
administrator. Where Airflow refuses, the task asks a person to do it on the DAG's page, and waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, DagRunState
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from srm_common.airflow_bridge.variables import is_missing
from srm_common.airflow_rest import AirflowRest
from srm_common.errors import AirflowError
from srm_common.settings_files.connections.airflow_connections import looked_up

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

_LOG = logging.getLogger(__name__)

CONNECTION = "srm_airflow"
FINAL_STATES = ("success", "failed")
ACTIVE_STATES = ["running", "queued"]
#: How long a person has to do what the login may not do. A worker's slot is taken meanwhile.
PERSON_SECONDS = 1800.0
_LOOK_SECONDS = 2.0
_TELL_SECONDS = 30.0


class FlowSchedule:
    """The DAG ``dag_id``, seen from the running task ``task_instance``.

    Raises:
        AirflowError: from every method: there is no such DAG here, or the request was not carried out.
    """

    def __init__(self, dag_id: str, task_instance: RuntimeTaskInstanceProtocol) -> None:
        self.dag_id = dag_id
        # The protocol lacks what a task may ask about other DAGs.
        self._task: Any = task_instance
        self._rest = airflow_itself()

    def is_paused(self) -> bool:
        with self._refusals():
            return self._paused()

    def why_not_steered(self) -> str | None:
        """Why a task would have to ask a person to pause the DAG, as far as that can be known without trying; None:
        nothing speaks against it."""
        try:
            self._rest.is_paused(self.dag_id)
        except AirflowError as error:
            return (
                f"this run cannot pause or unpause {self.dag_id} by itself, and will wait for a person to do it on the "
                f"DAG's page: {error}"
            )
        return None

    def pause(self, why: str) -> list[str]:
        """Pause the DAG, and end the runs that it would keep frozen; what was done, for people.

        Killing a task does no harm: what it copied last is committed completely, or not at all.
        """
        said = []
        if self.is_paused():
            said.append(f"{self.dag_id} was already paused")
        else:
            self._set_paused(True)
            said.append(f"paused {self.dag_id}")
        return said + self.end_runs(why)

    def resume(self) -> list[str]:
        """Unpause the DAG; returns sentences about what was done."""
        if not self.is_paused():
            return [f"{self.dag_id} already runs on its schedule"]
        self._set_paused(False)
        return [f"{self.dag_id} runs on its schedule again"]

    def end_runs(self, why: str) -> list[str]:
        """Mark queued and running runs as failed, with ``why`` as their note."""
        with self._refusals():
            active = self._task.get_dr_count(self.dag_id, states=ACTIVE_STATES)
        if not active:
            return []
        said = []
        try:
            for run_id in self._rest.active_runs(self.dag_id):
                self._rest.end_run(self.dag_id, run_id, why)
                said.append(f"ended run {run_id} of {self.dag_id}")
        except AirflowError as error:
            # What runs is found out on Kafka, too; a run that is frozen copies nothing.
            said.append(f"a run of {self.dag_id} has not ended, and this task may not end it: {error}")
        return said

    def run_once(self, run_id: str, params: dict[str, Any], note: str, seconds: float | None = None) -> str:
        """Start a run and wait for its end; the state that it ended in. The DAG must not be paused.

        Args:
            run_id: of the new run.
            seconds: how long to wait at most; None: as long as it takes.
        """
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

        wanted = TriggerDagRun(dag_id=self.dag_id, run_id=run_id, conf=params, note=note)
        try:
            # What the operator of the standard provider does, without ending this task.
            answer = task_runner.SUPERVISOR_COMMS.send(wanted)
        except AirflowRuntimeError as error:
            raise AirflowError(f"Airflow could not start a run of {self.dag_id}: {error}") from error
        if isinstance(answer, ErrorResponse):
            _LOG.info("run %s of %s was already requested", run_id, self.dag_id)
        return str(self._wait(lambda: self._final_state(run_id), f"run {run_id} of {self.dag_id} to end", seconds))

    # ---- inside

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except AirflowRuntimeError as error:
            if not is_missing(error):
                raise AirflowError(f"Airflow does not say how {self.dag_id} is doing: {error}") from error
            raise AirflowError(
                f"this Airflow has no DAG {self.dag_id}; move the flow where its DAG runs, or with srm-control"
            ) from error

    def _paused(self) -> bool:
        return bool(self._task.get_dag(self.dag_id).is_paused)

    def _final_state(self, run_id: str) -> str | None:
        # An enumeration whose text is not its value.
        state = DagRunState(self._task.get_dagrun_state(self.dag_id, run_id)).value
        return state if state in FINAL_STATES else None

    def _set_paused(self, paused: bool) -> None:
        try:
            self._rest.set_paused(self.dag_id, paused)
        except AirflowError as error:
            verb = "pause" if paused else "unpause"
            _LOG.warning(
                "%s; %s %s on its page now: this task continues when that is done. With the Airflow connection '%s' "
                "(type http, the credentials of a user who may do it) the task does it by itself",
                *(error, verb, self.dag_id, CONNECTION),
            )
            self._wait(lambda: self._paused() is paused, f"a person to {verb} {self.dag_id}", PERSON_SECONDS)

    def _wait(self, condition: Callable[[], Any], what: str, seconds: float | None) -> Any:
        started = reported = time.monotonic()
        while not (found := self._asked(condition)):
            now = time.monotonic()
            if seconds is not None and now - started > seconds:
                raise AirflowError(f"waited {seconds:.0f} s for {what}; clear this task to wait once more")
            if now - reported > _TELL_SECONDS:
                reported = now
                _LOG.info("waiting for %s", what)
            time.sleep(_LOOK_SECONDS)
        return found

    def _asked(self, condition: Callable[[], Any]) -> Any:
        """None where Airflow does not respond: a restart of its API server must not end a wait of half an hour."""
        with self._refusals():
            try:
                return condition()
            except AirflowRuntimeError as error:
                if is_missing(error):
                    raise
                _LOG.warning("%s is looked at again: %s", self.dag_id, error)
                return None


def airflow_itself() -> AirflowRest:
    """The API of the Airflow that runs this task, as the user of the connection ``srm_airflow``."""
    address = f"set its host in the Airflow connection '{CONNECTION}'"
    try:
        connection = looked_up(CONNECTION, BaseHook.get_connection, AirflowNotFoundException)
    except AirflowNotFoundException:
        return AirflowRest(
            _own_address(), mend_address=address, mend_login=f"create the Airflow connection '{CONNECTION}'"
        )
    url = _own_address()
    if connection.host and "://" in connection.host:
        url = connection.host
    elif connection.host:
        port = f":{connection.port}" if connection.port else ""
        url = f"{connection.schema or 'http'}://{connection.host}{port}"
    return AirflowRest(
        url,
        connection.login or None,
        connection.password or None,
        mend_address=address,
        mend_login=f"check the Airflow connection '{CONNECTION}'",
    )


def _own_address() -> str:
    """Where this task finds the API server: where its supervisor does. ``[api] base_url`` is made for browsers, and by
    default is on this machine, which need not be the API server's."""
    execution_api = str(conf.get("core", "execution_api_server_url", fallback="") or "").strip().rstrip("/")
    if execution_api:
        return execution_api.removesuffix("/execution")
    base = str(conf.get("api", "base_url", fallback="") or "").strip() or "/"
    return f"http://localhost:8080{base}" if base.startswith("/") else base
