"""What all DAGs of the project have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

# Where airflow.sdk has its DagRunState from; it exports no DagRunType.
from airflow.sdk.api.datamodels._generated import DagRunType

from srm_common.errors import ConfigError

# By these, the page and the API find DAGs and what they are about.
_OUR_TAGS = ("srm", "source:", "target:")
_ALWAYS: dict[str, Any] = {
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
}

#: Airflow's own limit, where its configuration has no other.
_LEAST_RUNS = 16


def runs_at_once(flows: int) -> int:
    """How many runs a DAG for all flows may have at once: enough for two of each flow, since a run that waits for a
    person counts, for as long as it waits. Airflow's own limit would be the same for two flows and for hundreds."""
    return max(_LEAST_RUNS, 2 * flows)


@dataclass(frozen=True)
class Additions:
    """What a DAG file adds to the DAGs: ``default_args`` of their tasks, and ``tags``.

    Raises:
        ConfigError: a tag would be taken for one of ours.
    """

    default_args: Mapping[str, Any] | None = None
    tags: Collection[str] = field(default=())

    def __post_init__(self) -> None:
        for tag in self._tags():
            if tag.startswith(_OUR_TAGS):
                raise ConfigError(
                    f"tag '{tag}': {', '.join(_OUR_TAGS)} begin tags that say what a DAG is; choose another"
                )

    def dag_arguments(self, tags: Iterable[str]) -> dict[str, Any]:
        """Of a DAG with ``tags`` of its own."""
        # Sorted, since a set that differs from parse to parse would change the DAG.
        return {
            **_ALWAYS,
            "tags": sorted({*tags, *self._tags()}),
            "default_args": {"owner": "srm", **(self.default_args or {})},
        }

    def _tags(self) -> Collection[str]:
        return (self.tags,) if isinstance(self.tags, str) else self.tags
