"""A flow's driver with a Spark application of its own, as ``spark_jobs/replicate.py`` has it."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from srm_common.domain.flow import FlowSettings
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import local_master, spark_settings
from srm_common.replication.spark.spark_pass import SparkPassRunner
from tests.faults.copier import run

#: Beside the flow, the address of a standalone cluster, where executors are to be there.
MASTER_FILE = "master"
_ROOT = Path(__file__).parents[2]
#: What is installed on a cluster's workers: this interpreter, and the package where it is.
_ON_CLUSTER = {
    "spark.executorEnv.PYTHONPATH": str(_ROOT),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main(flow_file: str, max_seconds: str, report_file: str) -> int:
    """A run in Spark."""
    flow: FlowSettings = pickle.loads(Path(flow_file).read_bytes())
    named = Path(flow_file).with_name(MASTER_FILE)
    cluster = named.read_text() if named.exists() else None
    if cluster is not None:
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    def settings(master: str) -> dict[str, str]:
        settings = spark_settings(master, flow.tasks_max, app_name="faults", statements=bool(flow.statements))
        return settings if cluster is None else settings | _ON_CLUSTER

    runner = SparkPassRunner(lambda: spark_context(settings, cluster or local_master(flow.tasks_max)))
    return run(flow, float(max_seconds), Path(report_file), runner)
