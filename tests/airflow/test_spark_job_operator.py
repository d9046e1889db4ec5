"""How Airflow's tasks start Spark: the real operator and provider, with a program in place of spark-submit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from srm_common.airflow_bridge import spark_job_operator
from srm_common.airflow_bridge.spark_job_operator import SparkJobOperator
from srm_common.domain.cluster import ClusterSettings
from tests.flow_settings import small_flow

pytestmark = pytest.mark.airflow

CONTEXT: Any = {"run_id": "r"}
PROPERTIES = {
    "clusters": "a, b",
    "a.bootstrap.servers": "a:9092",
    "b.bootstrap.servers": "b:9092",
    "a->b.enabled": "true",
}
FLOW = small_flow(ClusterSettings.plaintext("a", "a:9092"), ClusterSettings.plaintext("b", "b:9092"), "x")


@pytest.fixture
def submitting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration_file: Callable[..., Path]
) -> Callable[..., list[str]]:
    """Submits a job with a connection; returns the arguments that spark-submit was given."""
    arguments = tmp_path / "arguments"
    program = tmp_path / "submit"
    monkeypatch.setattr(spark_job_operator, "submit_wrapper", lambda: program)

    def submit(script: str = "exit 0", **connection: Any) -> list[str]:
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{arguments}\n{script}\n")
        program.chmod(0o755)
        given = {"conn_type": "spark", "host": "spark://h:7077", **connection}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK", json.dumps(given))
        operator = SparkJobOperator(
            task_id="t", config=str(configuration_file(PROPERTIES)), conn_id="spark", name="srm a->b"
        )
        operator.require_connection()
        (folder := tmp_path / "run").mkdir(exist_ok=True)
        (folder / "secrets.json").unlink(missing_ok=True)
        operator.submit(CONTEXT, FLOW, "/job.py", ["--flow", "a->b"], folder)
        return arguments.read_text().splitlines()

    return submit


def test_what_the_operator_has_set_for_the_drivers_jvm_counts(
    submitting: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [one.partition("=") for one in submitting() if one.startswith("spark.")]
    ours = {key: value for key, _, value in settings}
    assert ours["spark.driver.memory"] == "512m"
    assert f'-Djava.io.tmpdir="{tmp_path / "run"}"' in ours["spark.driver.extraJavaOptions"]
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 3g\nspark.driver.extraJavaOptions -Dx=y\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    joined = submitting()
    assert not [one for one in joined if one.startswith("spark.driver.memory")]
    assert f"spark.driver.extraJavaOptions={ours['spark.driver.extraJavaOptions']} -Dx=y" in joined
    assert joined[-3:] == ["/job.py", "--flow", "a->b"]
