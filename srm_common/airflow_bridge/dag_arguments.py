"""What all DAGs of the project have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

# Where airflow.sdk has its DagRunState from; it exports no DagRunType.
from airflow.sdk.api.datamodels._generated import DagRunType

DAG_ARGUMENTS: dict[str, Any] = {
    # Any fixed day in the past: runs are not caught up, and a date that moves would change the DAG.
    "start_date": datetime(2024, 1, 1, tzinfo=UTC),
    "catchup": False,
    # Never, whatever Airflow's configuration says: a flow that Airflow paused after some failures would not go on when
    # its cluster is back, its alarms would end, and a failover that failed would not start again. None would not do:
    # Airflow then looks into its configuration.
    "max_consecutive_failed_dag_runs": 0,
    # A run copies what is there now, of whatever day it is: those of a backfill would have nothing of their own to do,
    # and fence one another, since they run at the same time whatever max_active_runs says.
    "allowed_run_types": [run_type for run_type in DagRunType if run_type is not DagRunType.BACKFILL],
    "default_args": {"owner": "srm"},
}
