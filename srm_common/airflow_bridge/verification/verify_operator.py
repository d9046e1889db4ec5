"""The task of the DAG ``srm.verify``: proves the copies of a flow, in Spark or, below ``spark.min.bytes``, in its own
process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from srm_common.airflow_bridge.failures import translate_errors
from srm_common.airflow_bridge.params import VerifyParams
from srm_common.airflow_bridge.spark_job_operator import SparkJobOperator, job_path
from srm_common.domain.verification.verification import PartitionVerified, Verdict, verdicts
from srm_common.replication.driver.run_folder import run_folder
from srm_common.settings_files.configuration import load_configuration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from srm_common.domain.verification.verification import Verification
    from srm_common.usecases.flows.flow_clusters import FlowClusters

#: Of partitions that are not proved, in the XCom; the log and the flow's state have more.
_LINES_IN_XCOM = 50
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
#: What clocks of Airflow's machines may differ.
_CLOCKS = timedelta(minutes=5)


class VerifyOperator(SparkJobOperator):
    """Submits ``srm_common/spark_jobs/verify.py`` for the flow of the run's params.

    The result is in the XCom ``return_value``, even if the task fails. It fails without a retry if a copy is not what
    was committed; other failures are retried, and each attempt continues where the previous one ended.
    """

    ui_color = "#e6dcf5"

    def __init__(self, *, config: str, **kwargs: Any) -> None:
        super().__init__(config=config, name="srm verify", **kwargs)

    def execute(self, context: Context) -> Any:  # the summary; the provider's operator returns nothing
        from srm_common.domain.verification.summary import failure_sentence, outcome_sentence
        from srm_common.usecases.flows.flow_clusters import FlowClusters
        from srm_common.usecases.verification.kept_verification import kept_results, newest_start

        params = VerifyParams.of(context["params"])
        resume_since = self._resume_since(params, context)
        resume_since_ms = None if resume_since is None else round(resume_since.timestamp() * 1000)
        faults: tuple[str, ...] = ()
        failure: AirflowException | None = None
        with translate_errors():
            selection = params.selection(context["run_id"])
            configuration = load_configuration(Path(self.config))
            settings = configuration.flow(params.flow)
            # The flow's settings say in which Spark it runs.
            self._conn_id = settings.spark_connection
            self.require_connection()
            with FlowClusters(settings) as clusters:
                here = self._verified_here(clusters, params, context, resume_since)
                if here is not None:
                    partitions, faults = list(here.partitions), here.faults
                else:
                    before = newest_start(clusters)
                    with run_folder() as folder:
                        arguments = [
                            *("--flow", str(settings.name)),
                            *("--config", self.config),
                            *("--run-id", context["run_id"]),
                            *params.arguments(None if resume_since is None else resume_since.isoformat()),
                        ]
                        try:
                            self.submit(context, settings, job_path("verify.py"), arguments, folder)
                        except AirflowException as error:
                            failure = error
                    partitions = kept_results(clusters, selection.wants, before, resume_since_ms)
        sentence = failure_sentence(str(params.flow), partitions, faults)
        summary = _summary(params, partitions, sentence or (None if failure is None else str(failure)))
        # An exception leaves no return value by itself.
        context["ti"].xcom_push(key="return_value", value=summary)
        if any(partition.verdict is Verdict.DIFFERENT for partition in partitions):
            raise AirflowFailException(sentence)
        if failure is not None:
            raise failure
        if sentence is not None:
            raise AirflowException(sentence)
        self.log.info("%s", outcome_sentence(str(params.flow), partitions))
        return summary

    def _verified_here(
        self, clusters: FlowClusters, params: VerifyParams, context: Context, resume_since: datetime | None
    ) -> Verification | None:
        """Compared without Spark, None where that will not do."""
        from srm_common.domain.verification.summary import unproved_lines
        from srm_common.replication.spark.driver_pass import NeedsSpark
        from srm_common.usecases.verification.kept_verification import verify_and_keep
        from srm_common.usecases.verification.shared_verification import SharedVerification

        def needs_spark(*_: object) -> Any:
            raise NeedsSpark

        try:
            with self.working_here():
                verification = verify_and_keep(
                    clusters,
                    params.scope,
                    against=params.against,
                    chosen=params.selection(context["run_id"]).wants,
                    resume=resume_since is not None,
                    resume_since_ms=0 if resume_since is None else round(resume_since.timestamp() * 1000),
                    share=SharedVerification(needs_spark, clusters.flow.spark_min_bytes),
                )
        except NeedsSpark:
            return None
        except KeyboardInterrupt:
            raise AirflowException("stopped before its end; a retry, or a run with resume, continues there") from None
        for line in unproved_lines(verification.partitions):
            self.log.warning("%s", line)
        return verification

    def _resume_since(self, params: VerifyParams, context: Context) -> datetime | None:
        """The earliest start of a verification to continue, None for none: a retry continues that of its own run."""
        if params.resume:
            return _EVER
        started = context["dag_run"].start_date if context["ti"].try_number > 1 else None
        return None if started is None else started - _CLOCKS


def _summary(params: VerifyParams, partitions: Sequence[PartitionVerified], failure: str | None) -> dict[str, Any]:
    """For other tasks, as plain values."""
    from srm_common.domain.verification.summary import outcome_sentence, unproved_lines

    return {
        "flow": str(params.flow),
        "against": str(params.against),
        "clean": failure is None,
        "sentence": failure or outcome_sentence(str(params.flow), partitions),
        "counts": {str(verdict): count for verdict, count in verdicts(partitions).items()},
        "records": sum(partition.findings.proved for partition in partitions),
        "bytes": sum(partition.findings.bytes for partition in partitions),
        "not_proved": unproved_lines(partitions, _LINES_IN_XCOM),
    }
