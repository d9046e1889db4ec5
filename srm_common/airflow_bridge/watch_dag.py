"""The DAG ``srm.watch``: one task that looks at all flows once a minute.

It exists if the file configures a notifier: without one there is nothing to send, and the page, the REST API and
Prometheus judge flows whenever they are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from srm_common.airflow_bridge.watch_operator import WatchOperator
from srm_common.airflow_bridge.watch_overdue import DAG_ID, DEADLINE, TASK_ID, tell_unwatched
from srm_common.domain.flow import FlowName

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


def build_watch_dag(flows: Sequence[FlowName], assets: Sequence[Asset], config: Path, start: datetime) -> DAG:
    """``assets`` are those of ``flows``, in their order."""
    dag = DAG(
        dag_id=DAG_ID,
        description="Reports flows without runs",
        schedule=SCHEDULE,
        start_date=start,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=[TAG],
        doc_md=_DOC,
        default_args={"owner": "srm"},
        deadline=DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=DEADLINE,
            callback=AsyncCallback(tell_unwatched, kwargs={"config": str(config)}),
            name="no flow is watched",
        ),
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
