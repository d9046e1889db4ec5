"""How Airflow's tasks start Spark: the real operator and provider, with a program in place of spark-submit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from srm_common.airflow_bridge import spark_job_operator
from srm_common.airflow_bridge.spark_job_operator import SparkJobOperator
from srm_common.domain.cluster import ClusterSettings
from srm_common.replication.spark.spark_conf import spark_home
from srm_common.settings_files.connections import airflow_connections
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

    def submit(script: str = "exit 0", tickets: bool = False, **connection: Any) -> list[str]:
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{arguments}\n{script}\n")
        program.chmod(0o755)
        given = {"conn_type": "spark", "host": "spark://h:7077", **connection}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK", json.dumps(given))
        operator = SparkJobOperator(
            task_id="t",
            config=str(configuration_file(PROPERTIES)),
            conn_id="spark",
            name="srm a->b",
            use_krb5ccache=tickets,
        )
        operator.require_connection()
        (folder := tmp_path / "run").mkdir(exist_ok=True)
        for name in ("secrets.json", "last-word"):
            (folder / name).unlink(missing_ok=True)
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


def test_what_the_job_says_last_is_the_reason(submitting: Callable[..., list[str]]) -> None:
    """Also with versions of the provider that do not tell what spark-submit printed, and those that tell its end."""
    job = "from srm_common.replication.driver.last_word import say_last; say_last('the clusters are gone')"
    with pytest.raises(AirflowException, match=r"^the clusters are gone$"):
        submitting(f'{sys.executable} -c "{job}"; echo \'Exception in thread "main"\'; exit 3')
    job = job.replace("the clusters are gone", r"\u0150rs is gone")
    with pytest.raises(AirflowException, match=r"^Őrs is gone$"):
        submitting(f'LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {sys.executable} -c "{job}"; exit 3')
    with pytest.raises(AirflowException, match=r"ended with exit code 7; its output is in this log, above$"):
        submitting("exit 7")


def test_the_providers_reason_is_told_where_nothing_was_started(
    submitting: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    with pytest.raises(
        AirflowException, match=r"^spark-submit of a->b was not started: KRB5CCNAME environment variable"
    ):
        submitting(tickets=True)


@pytest.mark.parametrize("master", ["k8s://https://h:6443", "yarn", "spark://h:7077"])
def test_what_spark_needs_is_in_its_environment_with_every_master(
    submitting: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    # The Spark provider wants that of Kubernetes to be there, and asks it nothing in deploy mode client.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    for variable in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(spark_job_operator, "account_environment", lambda: {"SPARK_USER": "uid54321"})
    written = tmp_path / "environment"
    arguments = submitting(f"env >{written}; echo started", host=master)
    found = dict(line.partition("=")[::2] for line in written.read_text().splitlines())
    assert found["SPARK_HOME"] == spark_home({})
    assert (found["SPARK_USER"], found["PYSPARK_DRIVER_PYTHON"]) == ("uid54321", sys.executable)
    # Executors' images have a Python of their own.
    assert found.get("PYSPARK_PYTHON") == (None if master.startswith("k8s") else sys.executable)
    assert not [one for one in arguments if "SPARK_USER" in one]


def test_another_program_than_spark_submit_is_refused(
    submitting: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert submitting(extra={"spark-binary": "spark-submit"})
    with pytest.raises(AirflowFailException, match=r"'spark' names the spark-binary spark3-submit, .* SPARK_HOME; set"):
        submitting(extra={"spark-binary": "spark3-submit"})
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert submitting(extra={"spark-binary": "spark3-submit"})


def test_deploy_mode_client_may_be_named(submitting: Callable[..., list[str]]) -> None:
    arguments = submitting(extra={"deploy-mode": "client"})
    assert arguments[arguments.index("--deploy-mode") + 1] == "client"


def test_deploy_mode_cluster_is_refused(
    submitting: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "has deploy mode cluster, in which flows cannot run: their driver reads files of the task"
    with pytest.raises(AirflowFailException, match=f"^the Airflow connection 'spark' {told}"):
        submitting(host="yarn", extra={"deploy-mode": "cluster"})
    (tmp_path / "spark-defaults.conf").write_text("spark.submit.deployMode cluster\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(AirflowFailException, match=f"^spark.submit.deployMode of Spark's settings {told}"):
        submitting()
    # The connection's goes onto the command line.
    assert submitting(extra={"deploy-mode": "client"})


def test_a_connection_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that Airflow could not read: it says the same, so that a retry may help."""
    monkeypatch.setattr(airflow_connections, "_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(airflow_connections, "_in_vain", set())
    asked: list[str] = []
    there = Connection(conn_id="late", conn_type="spark", host="local[2]")

    def get_connection(conn_id: str) -> Connection:
        asked.append(conn_id)
        if conn_id == "late" and len(asked) == 3:
            return there
        raise AirflowNotFoundException(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", get_connection)
    SparkJobOperator(task_id="t", config="srm.properties", conn_id="late").require_connection()
    asked.clear()
    operator = SparkJobOperator(task_id="t", config="srm.properties", conn_id="nowhere")
    words = r"connection 'nowhere', .* was not found, or Airflow's secrets backend did not answer; .* create it"
    for _ in range(2):
        with pytest.raises(AirflowException, match=words) as failure:
            operator.require_connection()
        assert not isinstance(failure.value, AirflowFailException), "it is retried"
    assert len(asked) == 3 + 1, "a process waits once"
