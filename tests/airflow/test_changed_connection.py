"""A password that changes in Airflow's secrets backend while a task copies in Spark: the run goes on with the new
one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from tests.faults.live_writer import LiveWriter
from tests.kafka.access.secured import Secured, assert_equal, let_in, scram_listener
from tests.kafka.records import read_all

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

FIRST, SECOND = "open-sesame-1", "open-sesame-2"
_MECHANISM = "SCRAM-SHA-256"
#: How long a broker believes a login.
_REAUTHENTICATION_MS = 2_000
_PARTITIONS = 3


def test_a_password_that_changes_in_a_secrets_backend_during_a_run(
    broker_jvm: BrokerJvm, dags_folder: Path, tmp_path: Path, name: str
) -> None:
    """Only the task can ask Airflow. The driver, and slots on the same machine, ask the task."""
    soon = {"listener.name.client.connections.max.reauth.ms": str(_REAUTHENTICATION_MS)}
    backend, file = tmp_path / "connections.json", tmp_path / "srm.properties"
    with (
        LocalKafka(
            name="source", client_protocol="SASL_PLAINTEXT", settings=soon | scram_listener(_MECHANISM), jvm=broker_jvm
        ) as source,
        LocalKafka(name="target", jvm=broker_jvm) as target,
    ):
        let_in(source, "copier", FIRST, _MECHANISM)
        source.create_topic(name, _PARTITIONS)
        _know(backend, source, FIRST)
        lines = [
            "clusters = a, b",
            "a.connection = kafka_a",
            f"b.bootstrap.servers = {target.bootstrap_servers}",
            "a->b.enabled = true",
            f"a->b.topics = {name}",
            "replication.factor = -1",
            "sync.topic.acls.enabled = false",
            "schedule.interval.seconds = 86400",
            "run.max.seconds = 60",
            "tasks.max = 2",
            "task.retries = 0",
        ]
        file.write_text("\n".join(lines))
        environment = {
            "SRM_CONFIG": str(file),
            "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
            "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(backend)}),
        }
        with LocalAirflow(
            dags_folder=dags_folder,
            directory=tmp_path / "airflow",
            environment=environment,
            refresh_seconds=600,
            triggerer=False,
        ) as airflow:
            with LiveWriter(source.internal_servers, name, _PARTITIONS, 1, rate=300):
                airflow.wait_for_dag("srm.a.b")
                run = str(wait_until(lambda: airflow.runs("srm.a.b"), 300, "a first run")[-1]["dag_run_id"])
                wait_until(lambda: any(read_all(target, f"a.{name}").values()), 300, "copied records")
                let_in(source, "copier", SECOND, _MECHANISM)
                time.sleep(2 * _REAUTHENTICATION_MS / 1000)  # the broker refuses the first one meanwhile
                _know(backend, source, SECOND)
                time.sleep(10)
            state = airflow.wait_for_run("srm.a.b", run)
            log = airflow.log("srm.a.b", run, "replicate")
        assert state == "success", log[-4000:]
        assert "cannot be read again here" not in log, "a slot could not ask"
        assert FIRST not in log
        assert SECOND not in log
        assert assert_equal(Secured(source), name, Secured(target), f"a.{name}") > 0


def _know(backend: Path, source: LocalKafka, password: str) -> None:
    """The connection to the source has this password from now on."""
    host, _, port = source.bootstrap_servers.rpartition(":")
    extra = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": _MECHANISM}
    found = {"conn_type": "kafka", "host": host, "port": int(port), "login": "copier", "password": password}
    backend.write_text(json.dumps({"kafka_a": {**found, "extra": extra}}))
