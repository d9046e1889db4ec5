"""What a flow's DAG does before and while it copies, as one process: refresh the topics, then become spark-submit.

``python -m bench.flow_run --flow a->b --config FILE --run-id ID``. The Spark command line is the one that the DAG's
operator makes for the connection ``local[2]``.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click

import srm_common
from srm_common.domain.flow import FlowSettings
from srm_common.replication.spark.spark_conf import spark_settings
from srm_common.settings_files.configuration import load_configuration
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics

_MASTER = "local[2]"
_PACKAGE = Path(srm_common.__file__).parent


@click.command()
@click.option("--flow", required=True)
@click.option("--config", required=True, type=click.Path(path_type=Path))
@click.option("--run-id", required=True)
def main(flow: str, config: Path, run_id: str) -> None:
    """Does not return: the process goes on as spark-submit."""
    settings = load_configuration(config).flow(flow)
    for result in apply_plan(settings, plan_topics(settings)):
        if result.error is not None:
            sys.exit(f"{result.action}: {result.error}")
    command = spark_command(settings, config, run_id)
    os.execve(command[0], command, spark_environment(dict(os.environ)))


def spark_command(flow: FlowSettings, config: Path, run_id: str) -> list[str]:
    """The submit wrapper, settings that the driver's JVM needs before it starts, and the job."""
    settings = spark_settings("local", flow.tasks_max, statements=flow.needs_spark_sql)
    early = {key: settings[key] for key in ("spark.driver.extraJavaOptions", "spark.driver.memory")}
    return [
        str(_PACKAGE / "airflow_bridge" / "srm-spark-submit"),
        "--master",
        _MASTER,
        *(part for key, value in early.items() for part in ("--conf", f"{key}={value}")),
        "--name",
        f"srm {flow.name}",
        str(_PACKAGE / "spark_jobs" / "replicate.py"),
        *("--flow", str(flow.name)),
        *("--config", str(config)),
        *("--run-id", run_id),
    ]


def spark_environment(environment: dict[str, str]) -> dict[str, str]:
    """Driver and workers run in this interpreter, with the pyspark installed beside it."""
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    pyspark = find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        environment.setdefault("SPARK_HOME", str(Path(pyspark.origin).parent))
    return environment


if __name__ == "__main__":
    main()
