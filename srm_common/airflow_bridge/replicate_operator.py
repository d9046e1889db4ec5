"""The task that copies a flow, in Spark or, below ``spark.min.bytes``, in its own process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from srm_common.airflow_bridge.failures import RECORDED_EXIT_CODES, skip_if_disabled, stop_if_unable, translate_errors
from srm_common.airflow_bridge.params import RunParams
from srm_common.airflow_bridge.spark_job_operator import SparkJobOperator, job_path
from srm_common.airflow_bridge.variables import installation_id, open_flow
from srm_common.domain.runs.run_options import RunSelection
from srm_common.errors import RunFailed
from srm_common.replication.driver.run_folder import run_folder

if TYPE_CHECKING:
    from airflow.sdk import Context

    from srm_common.domain.flow import FlowSettings
    from srm_common.domain.runs.run_record import RunRecord
    from srm_common.usecases.filters.effective_filters import EffectiveFilters
    from srm_common.usecases.flows.flow_clusters import FlowClusters


class ReplicateOperator(SparkJobOperator):
    """Submits ``srm_common/spark_jobs/replicate.py`` for one flow. The filters go into a file of their own, since lists
    may be longer than a command line.

    Nearly all runs of nearly all flows find little that is new. So the run begins here, and Spark is started when there
    turns out to be enough to copy; at once, if the last run copied that much.
    """

    ui_color = "#cfe8d5"

    def __init__(self, *, flow: str, config: str, conn_id: str = "spark", **kwargs: Any) -> None:
        super().__init__(config=config, conn_id=conn_id, name=f"srm {flow}", **kwargs)
        self.flow = flow

    def pre_execute(self, context: Any) -> None:
        skip_if_disabled(context, self.config, self.flow)

    def execute(self, context: Context) -> None:
        stop_if_unable(context)
        self.require_connection()
        with translate_errors():
            params = RunParams.of(context["params"])
            params.options(context["run_id"])
            with open_flow(self.config, self.flow) as (now, clusters):
                settings = now.flow
                if self._copied_here(now, clusters, params, context["run_id"]):
                    return
        selection = RunSelection(
            now.filters.lists(),
            now.filters.origin,
            params.topics,
            params.topics_exclude,
            now.faults,
            installation_id(),
        )
        with translate_errors(), run_folder() as folder:
            file = folder / "selection.json"
            file.write_text(selection.format())
            arguments = [
                *("--flow", self.flow),
                *("--config", self.config),
                *("--run-id", context["run_id"]),
                *("--selection", str(file)),
                *params.arguments(),
            ]
            self.submit(context, settings, job_path("replicate.py"), arguments, folder)

    def _copied_here(self, now: EffectiveFilters, clusters: FlowClusters, params: RunParams, run_id: str) -> bool:
        """Copy without Spark, if that will do."""
        from srm_common.replication.spark.driver_pass import DriverPassRunner, NeedsSpark
        from srm_common.usecases.runs.replicate import raise_if_failed, replicate, summary
        from srm_common.usecases.runs.run_journal import last_run

        flow = now.flow
        options = replace(params.options(run_id), notes=now.faults, installation=installation_id())
        goes_on = flow.run_max_seconds if options.max_seconds is None else options.max_seconds
        last = last_run(clusters) if flow.spark_min_bytes and not goes_on else None
        if last is None or last.bytes >= flow.spark_min_bytes:
            return False
        try:
            with self.working_here():
                record = replicate(clusters, options, DriverPassRunner(flow.spark_min_bytes, spark=None))
        except NeedsSpark:
            return False
        except KeyboardInterrupt:
            raise AirflowException("stopped before its end; the next run continues from there") from None
        self.log.info("%s, without Spark (spark.min.bytes)", summary(record))
        try:
            raise_if_failed(record)
        except RunFailed as failed:
            kind = AirflowFailException if only_an_operator_can_mend(record) else AirflowException
            raise kind(str(failed)) from None
        return True

    def is_final(self, exit_code: int | None, settings: FlowSettings, run_id: str) -> bool:
        if super().is_final(exit_code, settings, run_id):
            return True
        return exit_code in RECORDED_EXIT_CODES and recorded_as_final(settings, run_id)


def recorded_as_final(flow: FlowSettings, run_id: str) -> bool:
    """Whether the run left a record whose errors only an operator can fix: then a retry is in vain."""
    from srm_common.errors import SrmError
    from srm_common.usecases.runs.run_journal import last_run

    try:
        record = last_run(flow)
    except SrmError:
        # The run's own error is the one to show; that its record cannot be read either does not matter.
        return False
    return record is not None and record.run_id == run_id and only_an_operator_can_mend(record)


def only_an_operator_can_mend(record: RunRecord) -> bool:
    """Whether the errors of a run's record are all of that kind."""
    from srm_common.domain.runs.partition_track import is_final

    kinds = {record.error_kind, *(partition.error_kind for partition in record.failed_partitions)} - {None}
    return bool(kinds) and all(kind is not None and is_final(kind) for kind in kinds)
