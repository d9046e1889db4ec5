"""What all DAGs of the project have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

DAG_ARGUMENTS: dict[str, Any] = {
    # Any fixed day in the past: runs are not caught up, and a date that moves would change the DAG.
    "start_date": datetime(2024, 1, 1, tzinfo=UTC),
    "catchup": False,
    # Never, whatever Airflow's configuration says: a flow that Airflow paused after some failures would not go on when
    # its cluster is back, its alarms would end, and a failover that failed would not start again. None would not do:
    # Airflow then looks into its configuration.
    "max_consecutive_failed_dag_runs": 0,
    "default_args": {"owner": "srm"},
}
