"""The task that copies: the Spark provider's operator, with this project's job and submit wrapper. Runs below
``spark.min.bytes`` are copied in its own process.

What is not worth starting Spark for (``spark.min.bytes``) it copies in its own process.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from srm_common.airflow_bridge.failures import (
    FINAL_EXIT_CODES,
    RECORDED_EXIT_CODES,
    stop_if_unable,
    translate_errors,
)
from srm_common.airflow_bridge.params import RunParams
from srm_common.airflow_bridge.variables import installation_id, open_flow
from srm_common.domain.runs.run_options import RunSelection
from srm_common.errors import RunFailed
from srm_common.replication.driver.run_folder import run_folder
from srm_common.replication.spark.spark_conf import LAUNCH_SETTINGS, spark_settings
from srm_common.settings_files.configuration import load_configuration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from srm_common.domain.flow import FlowSettings
    from srm_common.domain.runs.run_record import RunRecord
    from srm_common.usecases.filters.effective_filters import EffectiveFilters
    from srm_common.usecases.flows.flow_clusters import FlowClusters

# The job's last word: one sentence after this mark.
ERROR_MARK = "srm: "


class ReplicateOperator(SparkSubmitOperator):
    """Submits ``srm_common/spark_jobs/replicate.py`` for one flow.

    The command line is made when the task runs, out of the worker's own paths; it holds names only, since everybody on
    the machine can read it. The filters go into a file of their own, since lists may be longer than a command line.
    Fails without a retry when the exit code says that none would help.

    Nearly all runs of nearly all flows find little that is new. So the run begins here, and Spark is started when it
    turns out to be worth it; at once, where the last run was.
    """

    ui_color = "#cfe8d5"

    def __init__(self, *, flow: str, config: str, conn_id: str = "spark", **kwargs: Any) -> None:
        super().__init__(conn_id=conn_id, name=f"srm {flow}", **kwargs)
        self.flow = flow
        self.config = config
        self._copies_here = False

    def execute(self, context: Context) -> None:
        stop_if_unable(context)
        self._require_connection()
        with translate_errors():
            params = RunParams.of(context["params"])
            params.options(context["run_id"])
            with open_flow(self.config, self.flow) as (now, clusters):
                settings = now.flow
                # Neither arguments nor env_vars: on some masters the provider writes these into the command line.
                connections = load_configuration(Path(self.config)).connection_environment(settings.name)
                self.application = job_path()
                if self._copied_here(now, clusters, params, context["run_id"]):
                    return
        self._spark_binary = str(submit_wrapper())
        self.env_vars = spark_environment()
        selection = RunSelection(
            now.filters.lists(),
            now.filters.origin,
            params.topics,
            params.topics_exclude,
            now.faults,
            installation_id(),
        )
        with run_folder() as folder:
            self.conf = launch_settings(settings, folder)
            file = folder / "selection.json"
            file.write_text(selection.format())
            self.application_args = [
                *("--flow", self.flow),
                *("--config", self.config),
                *("--run-id", context["run_id"]),
                *("--selection", str(file)),
                *params.arguments(),
            ]
            try:
                with environment({**connections, "TMPDIR": str(folder)}):
                    super().execute(context)
            except AirflowException as failure:
                raise self._submit_failure(failure, settings, context["run_id"]) from None

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
        self._copies_here = True
        try:
            record = replicate(clusters, options, DriverPassRunner(flow.spark_min_bytes, spark=None))
        except NeedsSpark:
            return False
        except KeyboardInterrupt:
            raise AirflowException("stopped before its end; the next run continues from there") from None
        finally:
            self._copies_here = False
        self.log.info("%s, without Spark (spark.min.bytes)", summary(record))
        try:
            raise_if_failed(record)
        except RunFailed as failed:
            kind = AirflowFailException if only_an_operator_can_mend(record) else AirflowException
            raise kind(str(failed)) from None
        return True

    def on_kill(self) -> None:
        if self._copies_here:
            from srm_common.kafka.client.event_loop import interrupt

            # Airflow calls this in the midst of the copy and would let it continue.
            interrupt()
            return
        super().on_kill()

    def _require_connection(self) -> None:
        """The provider takes a missing connection for YARN and says so nowhere."""
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"the Airflow connection '{self._conn_id}', which says where Spark runs, does not exist; create it: "
                f"airflow connections add {self._conn_id} --conn-type spark --conn-host 'local[2]'"
            ) from None

    def _submit_failure(self, failure: AirflowException, flow: FlowSettings, run_id: str) -> AirflowException:
        process = None if self._hook is None else self._hook._submit_sp
        code = None if process is None else process.returncode
        final = code in FINAL_EXIT_CODES or (code in RECORDED_EXIT_CODES and recorded_as_final(flow, run_id))
        kind = AirflowFailException if final else AirflowException
        for line in reversed(str(failure).splitlines()):
            if line.startswith(ERROR_MARK):
                return kind(line.removeprefix(ERROR_MARK))
        return kind(f"spark-submit of {self.flow} ended with exit code {code}; its output is in this log, above")


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Inside, this process and the children it starts have these variables, too. A task has a process of its own."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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


def submit_wrapper() -> Path:
    """``srm-spark-submit``, which ends Spark with its parent process."""
    return Path(__file__).with_name("srm-spark-submit")


def job_path() -> str:
    """Path of the Spark job."""
    return str(Path(__file__).parents[1] / "spark_jobs" / "replicate.py")


def launch_settings(flow: FlowSettings, temporary: Path) -> dict[str, str]:
    """What the driver's JVM must be given before it starts; the job itself sets the rest, unless it is set already."""
    settings = spark_settings("local", flow.tasks_max, temporary=temporary, statements=flow.needs_spark_sql)
    return {key: settings[key] for key in LAUNCH_SETTINGS}


def spark_environment() -> dict[str, str]:
    """Environment of spark-submit: driver and local workers run in this interpreter, where srm_common is installed.

    Without SPARK_HOME, pip's spark-submit asks the first python on the PATH for its pyspark, which may be another one.
    """
    # Where the environment names another Python, that is the one of the cluster's workers.
    environment = {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
    }
    if "SPARK_HOME" not in os.environ:
        pyspark = importlib.util.find_spec("pyspark")
        if pyspark is not None and pyspark.origin is not None:
            environment["SPARK_HOME"] = str(Path(pyspark.origin).parent)
    return environment
