"""One Airflow and two clusters for all files of this folder, with the flow a->b."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from srm_common.testing.ports import LOOPBACK
from tests.airflow.mailbox import Mailbox
from tests.airflow.scheduler.scheduled_flow import DAG_ID, PASSWORD, run, write
from tests.airflow.scheduler.statsd import Statsd


@pytest.fixture(scope="session")
def statsd() -> Iterator[Statsd]:
    listener = Statsd()
    yield listener
    listener.close()


@pytest.fixture(scope="session")
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as listening:
        yield listening


# Brokers of their own: one test stops them.
@pytest.fixture(scope="session")
def clusters(broker_jvm: BrokerJvm) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    with LocalKafka(name="a", jvm=broker_jvm) as source, LocalKafka(name="b", jvm=broker_jvm) as target:
        yield source, target


@pytest.fixture(scope="session")
def airflow(
    clusters: tuple[LocalKafka, LocalKafka],
    statsd: Statsd,
    mailbox: Mailbox,
    dags_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LocalAirflow]:
    source, target = clusters
    configuration = tmp_path_factory.mktemp("flow") / "srm.properties"
    configuration.write_text(
        f"""\
clusters = a, b
a.bootstrap.servers = {source.bootstrap_servers}
# Tasks ask Airflow for this one, and hand it over to the Spark driver in a file.
b.connection = kafka_b
a->b.enabled = true
a->b.topcs = mistyped
# Once, at the start; then the tests say when.
schedule.interval.seconds = 86400
task.retries = 1
task.retry.delay.seconds = 2
alarm.notifiers = mail
alarm.notifier.mail.class = airflow.providers.smtp.notifications.smtp.SmtpNotifier
alarm.notifier.mail.to = ops@example.com
alarm.notifier.mail.subject = {{{{ alarm.text }}}}
alarm.notifier.mail.html_content = {{{{ ti.task_id }}}} of {{{{ run_id }}}}
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""
    )
    environment = {
        "SRM_CONFIG": str(configuration),
        "AIRFLOW_CONN_SMTP_DEFAULT": mailbox.connection,
        "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
        # How a test sees that the scheduler has looked for work.
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": LOOPBACK,
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
        "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
    }
    users = {"admin": ("admin", "admin"), "watcher": ("viewer", "watcher")}
    # In Airflow's database, not in its environment: a task has to ask for it.
    connection = {
        "conn_type": "kafka",
        "password": PASSWORD,
        "extra": json.dumps({"bootstrap.servers": target.bootstrap_servers}),
    }
    with LocalAirflow(
        dags_folder=dags_folder,
        environment=environment,
        users=users,
        connections={"kafka_b": connection},
        # A test that changes a DAG asks for a parse.
        refresh_seconds=600,
    ) as running:
        running.wait_for_dag(DAG_ID)
        # The scheduler makes it as soon as it sees the DAG. What a test changes for its own run must not hold it up, as
        # the test's would wait behind it.
        first = wait_until(lambda: running.runs(DAG_ID), 300, "a first run")[-1]["dag_run_id"]
        assert running.wait_for_run(DAG_ID, first) == "success", running.task_states(DAG_ID, first)
        yield running


@pytest.fixture
def topic(clusters: tuple[LocalKafka, LocalKafka], name: str) -> str:
    clusters[0].create_topic(name, partitions=2)
    return name


@pytest.fixture(scope="session")
def known_topic(airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka]) -> str:
    """A topic with two partitions that the flow has copied from: the size of its records is known, and a run that finds
    a few more starts no Spark."""
    source, _ = clusters
    topic = "known"
    source.create_topic(topic, partitions=2)
    write(source, topic, 10)
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    return topic
