"""What the triggerer does when a run of ``srm.watch`` is overdue: it reports that no flow is being watched.

A task may wait forever, for a slot of the executor or of its pool; the triggerer needs neither. The alarm
that the watch has stalled is raised only here and resolved only by the next check, and each writes its record only when
it has sent something: so neither is sent twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk import Asset

from srm_common.airflow_bridge.alarms import AlarmSender
from srm_common.airflow_bridge.variables import asset_state_outside_of_tasks
from srm_common.domain.amount import duration
from srm_common.domain.flow.settings import AlarmNotifier
from srm_common.domain.health.alarms import anchor
from srm_common.domain.health.health import Alarm, AlarmKind, Help, Severity
from srm_common.domain.health.watched_flow import WatchMemory
from srm_common.settings_files.configuration import Configuration, load_configuration

DAG_ID, TASK_ID = "srm.watch", "watch"
#: From the moment a run is queued until its end.
DEADLINE = timedelta(minutes=5)
#: Its state has the alarms sent about the watch itself, under the key :data:`STATE`.
WATCH_ASSET = Asset(name=DAG_ID, uri="srm://watch", group="srm")
STATE = "watch"
_ENDED = ("success", "failed")


async def notify_unwatched(config: str, context: Mapping[str, Any]) -> None:
    """Called by Airflow's triggerer, with what it knows of the run (``context``). ``config``: the properties file."""
    await asyncio.to_thread(_tell, config, context["dag_run"])


def all_notifiers(configuration: Configuration) -> list[AlarmNotifier]:
    """Each notifier of any flow once. Of several with one name that differ, the later ones have their flow's, too."""
    notifiers: list[AlarmNotifier] = []
    named: dict[str, AlarmNotifier] = {}
    for flow in sorted(configuration.names):
        for notifier in configuration.notifiers(flow):
            if notifier not in notifiers:
                notifiers.append(notifier)
                name = notifier.name if notifier.name not in named else f"{notifier.name} of {flow}"
                named[name] = replace(notifier, name=name)
    return list(named.values())


def _tell(config: str, run: Mapping[str, Any]) -> None:
    # Made for tasks; the triggerer answers the same question.
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    run_id = str(run["dag_run_id"])
    ended = RuntimeTaskInstance.get_dagrun_state(DAG_ID, run_id)
    if str(getattr(ended, "value", ended)) in _ENDED:
        # In the meantime; or it has failed, which Airflow takes for a missed deadline as well.
        return
    state = asset_state_outside_of_tasks(DAG_ID)
    configuration = load_configuration(Path(config), connections=None)
    watch = SimpleNamespace(dag_id=DAG_ID, task_id=TASK_ID, run_id=run_id)
    before = WatchMemory.from_json(state.get(STATE))
    kept: list[WatchMemory] = []
    AlarmSender({"run_id": run_id, "dag_run": run, "ti": watch, "task_instance": watch}).tell(
        all_notifiers(configuration),
        [_alarm(run_id, run.get("queued_at"))],
        before,
        DAG_ID,
        round(time.time() * 1000),
        informed=False,
        keep=kept.append,
    )
    # Only after all notifiers were called: a check in between would send the resolution to some, and then the alarm
    # would be raised again here.
    if kept[-1] != before:
        state.set(STATE, kept[-1].to_json())


def _alarm(run_id: str, queued_at: Any) -> Alarm:
    queued = datetime.fromisoformat(queued_at) if isinstance(queued_at, str) else None
    text = (
        f"no flow is watched: run {run_id} of {DAG_ID} has not ended within {duration(DEADLINE.total_seconds() * 1000)}"
    )
    return Alarm(
        AlarmKind.STALLED,
        Severity.CRITICAL,
        DAG_ID,
        text,
        None if queued is None else round(queued.timestamp() * 1000),
        Help(
            f"See in Airflow what task {TASK_ID} of {DAG_ID} waits for: a slot of the executor (parallelism) or of "
            f"default_pool, which flows wait for as well; or whether {DAG_ID} is paused.",
            anchor=anchor(AlarmKind.STALLED),
        ),
    )
