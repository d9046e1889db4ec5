"""A flow's driver with a Spark application of its own, as ``spark_jobs/replicate.py`` has it."""

from __future__ import annotations

import pickle
from pathlib import Path

from srm_common.domain.flow import FlowSettings
from srm_common.replication.spark.spark_conf import local_master, spark_settings
from srm_common.replication.spark.spark_pass import SparkPassRunner, spark_context
from tests.faults.copier import run


def main(flow_file: str, max_seconds: str, report_file: str) -> int:
    """A run in Spark."""
    flow: FlowSettings = pickle.loads(Path(flow_file).read_bytes())
    runner = SparkPassRunner(
        lambda: spark_context(
            lambda master: spark_settings(master, flow.tasks_max, app_name="faults", statements=bool(flow.statements)),
            local_master(flow.tasks_max),
        )
    )
    return run(flow, float(max_seconds), Path(report_file), runner)
