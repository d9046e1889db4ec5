"""What tasks with a Spark job of this project have in common: the Spark provider's operator, with this project's jobs
and submit wrapper."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from srm_common.airflow_bridge.failures import FINAL_EXIT_CODES, translate_errors
from srm_common.replication.driver.last_word import last_word, last_word_file
from srm_common.replication.spark.spark_conf import (
    account_environment,
    launch_settings,
    operators_settings,
    spark_home,
    spark_settings,
)
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.connections.airflow_connections import looked_up
from srm_common.settings_files.sources.secret_variables import answering, hand_over

if TYPE_CHECKING:
    from airflow.sdk import Context

    from srm_common.domain.flow import FlowSettings

_DEFAULT_BINARY = "spark-submit"


class SparkJobOperator(SparkSubmitOperator):
    """Submits a job of ``srm_common/spark_jobs``, unless there is so little to do that it is done here.

    The command line is made when the task runs, out of the worker's own paths; it holds names only, since everybody on
    the machine can read it. Fails without a retry when the exit code says that none would help.
    """

    def __init__(self, *, config: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self._works_here = False
        self._on_kubernetes = False

    def submit(
        self, context: Context, settings: FlowSettings, job: str, arguments: Sequence[str], folder: Path
    ) -> None:
        """Submit ``job`` for a flow and wait for its end.

        Args:
            job: its file, see :func:`job_path`.
            folder: for the driver's temporary files, and for variables that it needs and no other process of Spark may
                inherit, until it has read them.

        Raises:
            AirflowException: it failed, with the job's last word; AirflowFailException where no retry helps.
        """
        self.application = job
        self._spark_binary = str(submit_wrapper())
        # spark-submit inherits it. What the provider is given as env_vars does not reach it with every master.
        variables = spark_environment(python_of_workers=not self._on_kubernetes)
        ours = spark_settings("local", settings.tasks_max, temporary=folder, statements=settings.needs_spark_sql)
        with translate_errors():
            # The job itself sets the rest, unless it is set already.
            self.conf = launch_settings(ours, {**os.environ, **variables})
        self.application_args = list(arguments)

        def secrets() -> dict[str, str]:
            # In a thread, too: a driver whose login was refused asks whether Airflow has another one by now.
            return load_configuration(Path(self.config)).secret_variables(settings.name)

        with translate_errors():
            handed_over = hand_over(folder / "secrets.json", secrets())
        try:
            variables |= {**handed_over, **last_word_file(folder), "TMPDIR": str(folder)}
            with environment(variables), answering(folder, secrets):
                super().execute(context)
        except AirflowException as failure:
            raise self._submit_failure(failure, settings, context["run_id"], last_word(folder)) from None

    @contextmanager
    def working_here(self) -> Iterator[None]:
        """Inside, the task does the work in its own process; who ends the task, interrupts that."""
        self._works_here = True
        try:
            yield
        finally:
            self._works_here = False

    def on_kill(self) -> None:
        if self._works_here:
            from srm_common.kafka.client.connections.event_loop import interrupt

            # Airflow calls this in the midst of the work and would let it continue.
            interrupt()
            return
        super().on_kill()

    def is_final(self, exit_code: int | None, settings: FlowSettings, run_id: str) -> bool:
        """Whether a retry would be in vain after this exit code of the job."""
        return exit_code in FINAL_EXIT_CODES

    def require_connection(self) -> None:
        """The provider silently treats a missing connection as YARN.

        Raises:
            AirflowException: there is none, or Airflow could not read it, which it does not tell apart.
            AirflowFailException: the driver would run elsewhere, without the files of the task, or the connection
                names another program than spark-submit.
        """
        try:
            connection = looked_up(self._conn_id, BaseHook.get_connection, AirflowNotFoundException)
        except AirflowNotFoundException:
            raise AirflowException(
                f"the Airflow connection '{self._conn_id}', which says where Spark runs, was not found, or Airflow's "
                f"secrets backend did not answer; if there is none, create it: airflow connections add {self._conn_id} "
                f"--conn-type spark --conn-host 'local[2]'"
            ) from None
        self._on_kubernetes = "k8s" in (connection.host or "")
        extra, place = connection.extra_dejson, f"the Airflow connection '{self._conn_id}'"
        binary = extra.get("spark-binary") or _DEFAULT_BINARY
        if binary != _DEFAULT_BINARY and "SPARK_HOME" not in os.environ:
            raise AirflowFailException(
                f"{place} names the spark-binary {binary}, which flows do not start: they start bin/spark-submit of "
                "SPARK_HOME; set that to the folder of its Spark (and HADOOP_CONF_DIR, if it has one) in the "
                "environment of Airflow's workers, or remove spark-binary for the Spark of the installed pyspark"
            )
        mode = extra.get("deploy-mode")
        if not mode:
            with translate_errors():
                settings = operators_settings({**os.environ, **spark_environment()})
            mode, place = settings.get("spark.submit.deployMode"), "spark.submit.deployMode of Spark's settings"
        if mode == "cluster":
            raise AirflowFailException(
                f"{place} has deploy mode cluster, in which flows cannot run: their driver reads files of the task "
                "that submits it; set it to client"
            )

    def _submit_failure(
        self, failure: AirflowException, settings: FlowSettings, run_id: str, reason: str | None
    ) -> AirflowException:
        process = None if self._hook is None else self._hook._submit_sp
        if process is None:
            # The provider's own reason, and nothing else tells it.
            return AirflowException(f"spark-submit of {settings.name} was not started: {failure}")
        code = process.returncode
        kind = AirflowFailException if self.is_final(code, settings, run_id) else AirflowException
        return kind(
            reason or f"spark-submit of {settings.name} ended with exit code {code}; its output is in this log, above"
        )


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Inside the context, this process and its children also have these variables. A task has its own process."""
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


def submit_wrapper() -> Path:
    """``srm-spark-submit``, which ends Spark with its parent process."""
    return Path(__file__).with_name("srm-spark-submit")


def job_path(name: str) -> str:
    """Path of a Spark job: ``replicate.py`` or ``verify.py``."""
    return str(Path(__file__).parents[1] / "spark_jobs" / name)


def spark_environment(*, python_of_workers: bool = True) -> dict[str, str]:
    """Environment of spark-submit: driver and local workers run in this interpreter, where srm_common is installed.

    ``python_of_workers``: whether that is also the path of the workers' Python, unless the environment names another;
    the images of Kubernetes' executors have theirs on their PATH.

    Without SPARK_HOME, pip's spark-submit asks the first python on the PATH for its pyspark, which may be another one.
    """
    # Where the environment names another Python, that is the one of the cluster's workers.
    environment = {
        **account_environment(),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
    }
    if python_of_workers:
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if "SPARK_HOME" not in os.environ and (home := spark_home(os.environ)) is not None:
        environment["SPARK_HOME"] = home
    return environment
