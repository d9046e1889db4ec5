"""The DAG ``srm.watch``: one task that looks at all flows once a minute.

It exists if the file configures a notifier: without one there is nothing to send, and the page, the REST API and
Prometheus judge flows on each request.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import DAG, Asset, BaseOperator
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from srm_common.airflow_bridge.alarms import MEMORY, AlarmSender
from srm_common.airflow_bridge.dag_arguments import Additions
from srm_common.airflow_bridge.failures import translate_errors
from srm_common.airflow_bridge.flow_tasks import Work, pool_of
from srm_common.airflow_bridge.variables import ensure_asset_state, is_missing
from srm_common.airflow_bridge.watch_overdue import (
    DAG_ID,
    DEADLINE,
    STATE,
    TASK_ID,
    WATCH_ASSET,
    all_notifiers,
    notify_unwatched,
)
from srm_common.domain.flow import FlowName
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.health.watched_flow import FlowActivity, Look, WatchedFlow, WatchMemory, look_at
from srm_common.domain.monitoring.schedule import waits_for_slot, waits_for_worker
from srm_common.settings_files.configuration import Configuration, load_configuration

if TYPE_CHECKING:
    from airflow.sdk import Context


# The task that looks at all flows from outside of their runs, and tells of those whose runs do not take place.


#: The watch's own key of a flow's asset state.
WATCH = "watch"
_AT_WORK = ["running", "restarting", "deferred", "up_for_retry", "up_for_reschedule"]
_ACTIVE_RUNS = ["running", "queued"]


class _Watched(NamedTuple):
    flow: FlowName
    state: Any
    before: WatchMemory
    look: Look


class WatchOperator(BaseOperator):
    """Judges each flow by what its last run left in Airflow's asset state, and by what Airflow has of its DAG: neither
    clusters nor the history of metrics are asked. ``flows`` are ``source->target``, ``assets`` theirs, in their order.

    A flow that cannot be judged fails the task once all others were.
    """

    ui_color = "#e8f1ff"

    def __init__(self, *, flows: Sequence[str], assets: Sequence[Asset], config: str, **kwargs: Any) -> None:
        # Inlets, since only a task's own assets may keep state.
        super().__init__(inlets=[*assets, WATCH_ASSET], **kwargs)
        self.flows = list(flows)
        self.assets = list(assets)
        self.config = config

    def pre_execute(self, context: Any) -> None:
        ensure_asset_state(context)

    def execute(self, context: Context) -> None:
        with translate_errors():
            configuration = load_configuration(Path(self.config), connections=None)
        faults: list[str] = []
        watched: list[_Watched] = []
        for text, asset in zip(self.flows, self.assets, strict=True):
            flow = FlowName.parse(text)
            # What was taken out of the file since is watched no more; what was added comes with the next DAG.
            if flow in configuration.flows or flow in configuration.faults:
                try:
                    watched.append(self._look(flow, context["asset_state_store"][asset], configuration, context))
                except AirflowRuntimeError as error:
                    faults.append(f"{flow}: {error}")
        # All are judged before anything is sent: notifiers may be slow.
        sender = AlarmSender(context)
        for one in watched:
            try:
                self._tell(one, configuration, sender)
            except AirflowRuntimeError as error:
                faults.append(f"{one.flow}: {error}")
        try:
            self._tell_of_itself(context["asset_state_store"][WATCH_ASSET], configuration, sender)
        except AirflowRuntimeError as error:
            faults.append(f"{DAG_ID}: {error}")
        for fault in faults:
            self.log.error("%s", fault)
        if faults:
            raise AirflowException(f"{len(faults)} of {len(self.flows)} flows were not watched, the first: {faults[0]}")

    def _tell_of_itself(self, state: Any, configuration: Configuration, sender: AlarmSender) -> None:
        """Resolve the triggerer's alarm that flows are not being watched."""
        memory = WatchMemory.from_json(state.get(STATE))
        if memory.told:
            everyone = all_notifiers(configuration)
            sender.tell(
                everyone,
                [],
                memory,
                DAG_ID,
                round(time.time() * 1000),
                informed=True,
                keep=lambda known: state.set(STATE, known.to_json()),
            )

    def _look(self, flow: FlowName, state: Any, configuration: Configuration, context: Context) -> _Watched:
        fault = configuration.faults.get(flow)
        settings = configuration.flows.get(flow)
        before = WatchMemory.from_json(state.get(WATCH))
        seen = WatchedFlow(
            flow,
            round(time.time() * 1000),
            settings,
            AlarmMemory.from_json(state.get(MEMORY)).history,
            before,
            misconfigured=None if fault is None else str(fault),
        )
        pool = "default_pool" if settings is None else pool_of(settings)
        enabled = configuration.says_enabled(flow)

        def ask() -> FlowActivity:
            # Of a flow that the file disables, nothing is due, as of one that is paused.
            if enabled is False:
                return FlowActivity(paused=True)
            return activity_of(flow, pool, context["ti"], enabled=enabled is True)

        look = look_at(seen, ask)
        for alarm in look.alarms:
            self.log.warning("alarm %s (%s): %s", alarm.kind, alarm.severity, alarm.text)
        return _Watched(flow, state, before, look)

    def _tell(self, one: _Watched, configuration: Configuration, sender: AlarmSender) -> None:
        kept = one.before

        def keep(memory: WatchMemory) -> None:
            nonlocal kept
            if memory != kept:
                one.state.set(WATCH, memory.to_json())
                kept = memory

        sender.tell(
            configuration.notifiers(one.flow),
            one.look.alarms,
            one.look.memory,
            str(one.flow),
            round(time.time() * 1000),
            informed=one.look.informed,
            keep=keep,
        )


def activity_of(flow: FlowName, pool: str, task_instance: Any, *, enabled: bool = True) -> FlowActivity:
    """What Airflow has of a flow's DAG, asked by the running task ``task_instance``. ``pool`` is that of its task
    ``replicate``. A flow that is not ``enabled`` in the file need not have a DAG.

    Raises:
        AirflowRuntimeError: Airflow does not respond.
    """
    dag_id = flow.dag_id
    try:
        paused = bool(task_instance.get_dag(dag_id).is_paused)
    except AirflowRuntimeError as error:
        if not is_missing(error):
            raise
        return FlowActivity(waiting=f"this Airflow has no DAG {dag_id}") if enabled else FlowActivity(paused=True)
    if paused:
        return FlowActivity(paused=True)
    if task_instance.get_ti_count(dag_id, states=_AT_WORK):
        return FlowActivity(at_work=True)
    if not task_instance.get_dr_count(dag_id, states=_ACTIVE_RUNS):
        return FlowActivity(waiting="Airflow starts none")
    for work in Work:
        if task_instance.get_ti_count(dag_id, task_ids=[work.value], states=["scheduled"]):
            of = pool if work is Work.REPLICATE else "default_pool"
            return FlowActivity(waiting=waits_for_slot(work, of))
        if task_instance.get_ti_count(dag_id, task_ids=[work.value], states=["queued"]):
            return FlowActivity(waiting=waits_for_worker(work))
    return FlowActivity(waiting="a run is waiting to start")


#: Not that of flows, which other pages list by theirs.
TAG = "srm-watch"
SCHEDULE = timedelta(minutes=1)
#: For a check of all flows, including hanging notifiers.
TIMEOUT = timedelta(minutes=10)

_DOC = """\
## Watches the flows

Once a minute: has a run of each flow succeeded in time (`stalled.after.seconds`)? If not, and the flow is neither \
paused nor active, the notifiers of the file (`alarm.notifiers`) send the alarm `stalled`, and again when it is \
resolved. All other alarms are sent by the flows' own runs.

If a run of this DAG does not end within five minutes, because tasks get no slots, Airflow's triggerer reports that.

While this DAG is paused, flows without runs are not reported. It queries no cluster, and copies nothing.
"""


def _deadline_name(name: str) -> dict[str, Any]:
    """Airflow 3.2 gives deadlines none."""
    return {"name": name} if "name" in inspect.signature(DeadlineAlert).parameters else {}


def build_watch_dag(flows: Sequence[FlowName], assets: Sequence[Asset], config: Path, additions: Additions) -> DAG:
    """``assets`` are those of ``flows``, in their order."""
    dag = DAG(
        dag_id=DAG_ID,
        description="Reports flows without runs",
        schedule=SCHEDULE,
        max_active_runs=1,
        is_paused_upon_creation=False,
        doc_md=_DOC,
        deadline=DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=DEADLINE,
            callback=AsyncCallback(notify_unwatched, kwargs={"config": str(config)}),
            **_deadline_name("no flow is watched"),
        ),
        **additions.dag_arguments([TAG]),
    )
    WatchOperator(
        dag=dag,
        task_id=TASK_ID,
        doc_md="Checks every flow of the file, and sends new alarms. Not retried, since the next run checks again.",
        flows=[str(flow) for flow in flows],
        assets=assets,
        config=str(config),
        retries=0,
        execution_timeout=TIMEOUT,
        # Where slots are few, before anything that copies: it takes a second.
        priority_weight=1000,
        weight_rule="absolute",
    )
    return dag
