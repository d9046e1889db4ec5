"""The flow DAG in a real scheduler, with real brokers and real Spark: what an operator does, and what may go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import LocalAirflowError
from srm_common.kafka.state import driver_presence
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.driver.run_folder import PREFIX
from srm_common.testing import LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.java import temporary_folder
from srm_common.testing.local_airflow import LocalAirflow
from srm_common.testing.ports import LOOPBACK
from tests.airflow.mailbox import Mailbox
from tests.faults.quotas import quota

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

DAG_ID = "srm.a.b"
#: States of a flow that does what it is told to.
GOOD = ("running", "catching_up", "idle")
PASSWORD = "hush-hush"
TASKS = {"refresh_topics", "replicate", "sync_checkpoints", "emit_heartbeat", "report_lag", "outcome"}
Headers = list[tuple[str, bytes | None]]
Row = tuple[bytes | None, bytes | None, Headers, int]


class Statsd:
    """A UDP socket that keeps every line that comes in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((LOOPBACK, 0))
        # Nothing is dropped while this process is busy.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.port: int = self._socket.getsockname()[1]
        self.lines: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.lines += self._socket.recv(65536).decode().splitlines()

    def close(self) -> None:
        self._socket.close()

    def values(self, metric: str, **tags: str) -> list[float]:
        """Of lines like ``airflow.srm.records_lag,flow=a/b,partition=0,topic=orders:0|g``."""
        found = []
        for line in self.lines:
            series, _, rest = line.rpartition(":")
            name, *pairs = series.split(",")
            if name == f"airflow.{metric}" and tags.items() <= dict(pair.split("=", 1) for pair in pairs).items():
                found.append(float(rest.partition("|")[0]))
        return found


@pytest.fixture(scope="module")
def statsd() -> Iterator[Statsd]:
    listener = Statsd()
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as listening:
        yield listening


# Brokers of their own: one test stops them.
@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalKafka, LocalKafka]]:
    with LocalKafka(name="a") as source, LocalKafka(name="b") as target:
        yield source, target


@pytest.fixture(scope="module")
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
# Tasks ask Airflow for this one, and the Spark driver finds it in its environment.
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
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": LOOPBACK,
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
        "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
    }
    users = {"admin": ("admin", "admin"), "watcher": ("viewer", "watcher")}
    made = LocalAirflow(dags_folder=dags_folder, environment=environment, users=users)
    made.prepare()
    # In Airflow's database, not in its environment: a task has to ask for it.
    connection = {"conn_type": "kafka", "password": PASSWORD, "extra": {"bootstrap.servers": target.bootstrap_servers}}
    made.command("connections", "add", "kafka_b", "--conn-json", json.dumps(connection))
    with made as running:
        running.wait_for_dag(DAG_ID)
        yield running


@pytest.fixture
def topic(clusters: tuple[LocalKafka, LocalKafka], name: str) -> str:
    clusters[0].create_topic(name, partitions=2)
    return name


def write(kafka: LocalKafka, topic: str, count: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "lz4", "linger.ms": 20})
    for number in range(first, first + count):
        producer.produce(topic, key=f"{number}", value=f"value {number}", headers=[("h", b"1"), ("h", None)])
    assert producer.flush(60) == 0


def read(kafka: LocalKafka, topic: str, partitions: int = 2) -> dict[int, list[Row]]:
    """What a read_committed consumer sees, by partition."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    rows: dict[int, list[Row]] = {number: [] for number in range(partitions)}
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in rows])
    left = set(rows)
    deadline = time.monotonic() + 180
    while left and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            left.discard(message.partition() or 0)
            continue
        headers: Any = message.headers() or []
        rows[message.partition() or 0].append((message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    assert not left
    return rows


def run(airflow: LocalAirflow, params: dict[str, Any] | None = None) -> tuple[str, str]:
    """(run id, final state)."""
    run_id = airflow.trigger(DAG_ID, params)
    return run_id, airflow.wait_for_run(DAG_ID, run_id)


@contextlib.contextmanager
def settings(airflow: LocalAirflow, *lines: str) -> Iterator[None]:
    """The file has these lines, too, while the block lasts; each try of a task reads it anew."""
    file = Path(airflow.environment["SRM_CONFIG"])
    before = file.read_text()
    file.write_text("".join(f"{line}\n" for line in (before.rstrip(), *lines)))
    try:
        yield
    finally:
        file.write_text(before)


def spark_processes(airflow: LocalAirflow, run_id: str) -> list[psutil.Process]:
    """The JVM of a run, its driver and its Python workers; the workers' command lines are the same for all runs."""
    found = []
    for process in airflow.descendants():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if "airflow" not in command and (run_id in command or any("daemon" in word for word in command)):
                found.append(process)
    return found


def copying(airflow: LocalAirflow, run_id: str, remote: str, target: LocalKafka) -> Callable[[], bool]:
    """True once Spark has copied something in this run and still runs."""

    def ask() -> bool:
        try:
            known = target.admin().list_topics(timeout=60).topics
        except KafkaException:  # a broker that is too busy to answer in time is asked again
            return False
        return remote in known and bool(spark_processes(airflow, run_id)) and any(read(target, remote).values())

    return ask


def test_an_enabled_flow_copies_by_itself_and_reports(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], statsd: Statsd, topic: str
) -> None:
    source, target = clusters
    # The scheduler makes the first run as soon as it sees the DAG; it may have been before the topic was written.
    first = wait_until(lambda: airflow.runs(DAG_ID), 300, "a first run")[-1]["dag_run_id"]
    assert airflow.wait_for_run(DAG_ID, first) == "success", airflow.task_states(DAG_ID, first)
    assert first.startswith("scheduled__")

    write(source, topic, 1000)
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert airflow.task_states(DAG_ID, run_id) == dict.fromkeys(TASKS, "success")
    assert read(target, f"a.{topic}") == read(source, topic)

    assert PASSWORD not in "".join(airflow.log(DAG_ID, run_id, task) for task in ("refresh_topics", "replicate"))
    log = airflow.log(DAG_ID, run_id, "refresh_topics")
    assert "a->b.topcs is unknown and has no effect; did you mean a->b.topics?" in log
    log = airflow.log(DAG_ID, run_id, "report_lag")
    assert "a->b: running: the last run copied" in log
    assert any(line.split()[:3] == [topic, "2", "1,000"] for line in log.splitlines()), log

    # Sent, but perhaps not read yet.
    lags = wait_until(lambda: statsd.values("srm.records_lag", flow="a/b", topic=topic), 120, "lag metrics")
    assert set(lags) == {0.0}
    wait_until(lambda: sum(statsd.values("srm.records", flow="a/b", topic=topic)) == 1000, 120, "1000 records")
    wait_until(lambda: statsd.values("srm.flow_ok", flow="a/b")[-1:] == [1.0], 120, "a flow that is well")

    (asset,) = airflow.get("/api/v2/assets", uri_pattern="srm://a/b")["assets"]
    entries = airflow.get(f"/api/v2/assets/{asset['id']}/state-store")["asset_state_store"]
    state_of = {entry["key"]: entry["value"] for entry in entries}
    assert (state_of["status"]["state"], state_of["status"]["run_id"]) == ("running", run_id)
    assert state_of["figures"]["lag"] == 0
    (figures,) = [row for row in state_of["topics"] if row["topic"] == topic]
    assert (figures["records"], figures["lag"], figures["remote_topic"]) == (1000, 0, f"a.{topic}")

    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert (flow["flow"], flow["dag_id"], flow["paused"]) == ("a->b", DAG_ID, False)
    assert flow["health"]["state"] in GOOD, flow["health"]
    assert (flow["last_run"]["run_id"], flow["last_run"]["lag"]) == (run_id, 0)

    heartbeat = read(target, "heartbeats", partitions=1)[0]
    assert heartbeat, "emit_heartbeat has written"

    installation = airflow.get("/api/v2/variables/srm_installation")["value"]
    remembered = [row[1] for row in read(target, "srm-flow-state.a.internal", partitions=1)[0] if row[1]]
    assert any(f'"id":"{installation}"'.encode() in value for value in remembered)


def test_the_command_line_finds_a_connection_of_airflows_database(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka]
) -> None:
    command = [sys.executable, "-m", "srm_common.cli.main", "config", "explain", "bootstrap.servers", "-o", "json"]
    done = subprocess.run(command, env=airflow.environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {one["side"]: one for one in json.loads(done.stdout)["explanations"]}
    assert found["target"]["value"] == clusters[1].bootstrap_servers
    assert found["target"]["origin"]["place"] == "Airflow connection kafka_b"


def test_no_secret_and_no_noise_in_the_log_of_the_copy(airflow: LocalAirflow) -> None:
    with settings(airflow, "spark.min.bytes = 0"):
        run_id, state = run(airflow, {"topics": ["nothing-of-this-name"]})
    assert state == "success"
    log = airflow.log(DAG_ID, run_id, "replicate")
    assert "--flow a->b" in log
    chatter = [line for line in log.splitlines() if " INFO " in line and " INFO a->b: " not in line]
    assert chatter == [], "Spark's own"


def heartbeat(airflow: LocalAirflow) -> str:
    """When the scheduler last said that it lives."""
    return str(airflow.get("/api/v2/monitor/health")["scheduler"]["latest_scheduler_heartbeat"])


def test_a_paused_flow_copies_nothing_until_it_is_unpaused(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    source, target = clusters
    write(source, topic, 10)
    airflow.pause(DAG_ID)
    run_id = airflow.trigger(DAG_ID)
    looks = {heartbeat(airflow)}
    wait_until(lambda: looks.add(heartbeat(airflow)) or len(looks) > 3, 300, "the scheduler to look for work twice")  # type: ignore[func-returns-value]
    assert not any(airflow.task_states(DAG_ID, run_id).values())
    assert f"a.{topic}" not in target.admin().list_topics(timeout=60).topics
    airflow.unpause(DAG_ID)
    assert airflow.wait_for_run(DAG_ID, run_id) == "success"
    assert read(target, f"a.{topic}") == read(source, topic)


def test_a_cluster_that_is_down_fails_the_run_with_its_name_and_the_next_run_recovers(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    source, target = clusters
    write(source, topic, 10)
    target.stop()
    try:
        with settings(airflow, "admin.timeout.ms = 5000"):
            run_id, state = run(airflow)
    finally:
        target.restart()
    assert state == "failed"
    tasks = airflow.tasks(DAG_ID, run_id)
    assert {task_id: task["state"] for task_id, task in tasks.items()} == {
        **dict.fromkeys(TASKS, "failed"),
        "outcome": "upstream_failed",
    }
    assert tasks["refresh_topics"]["try_number"] == 2, "tried again"
    sentence = airflow.log(DAG_ID, run_id, "refresh_topics", 2)
    assert "cluster 'b'" in sentence
    assert target.bootstrap_servers in sentence
    assert tasks["replicate"]["try_number"] == 1, "no Spark job for what is known to be in vain"
    assert "refresh_topics of this run failed: " in airflow.log(DAG_ID, run_id, "replicate")
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] == "failing"
    assert "cluster 'b'" in flow["health"]["cause"]

    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{topic}") == read(source, topic)
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] in GOOD, flow["health"]


def test_a_killed_spark_job_is_tried_again_without_loss_or_repeat(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    source, target = clusters
    write(source, topic, 1000)
    # Still at work when it is killed, however long that takes; the second try ends when all is copied.
    with settings(airflow, "run.max.seconds = 900"):
        run_id = airflow.trigger(DAG_ID, {"topics": [topic]})
        wait_until(copying(airflow, run_id, f"a.{topic}", target), 300, "copying")
    for process in spark_processes(airflow, run_id):
        with contextlib.suppress(psutil.NoSuchProcess):
            # The connection is in the job's environment, which its own user alone may read, and in no argument.
            assert PASSWORD in process.environ()["AIRFLOW_CONN_KAFKA_B"]
            assert not any(PASSWORD in argument for argument in process.cmdline())
            process.kill()
    write(source, topic, 500, first=1000)
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
    assert airflow.tasks(DAG_ID, run_id)["replicate"]["try_number"] == 2
    assert read(target, f"a.{topic}") == read(source, topic)


def test_marked_failed_while_running_ends_spark(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    source, target = clusters
    write(source, topic, 100)
    run_id = airflow.trigger(DAG_ID, {"topics": [topic], "run.max.seconds": 900})
    wait_until(copying(airflow, run_id, f"a.{topic}", target), 300, "copying")
    airflow.patch(f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/replicate", {"new_state": "failed"})
    wait_until(lambda: not spark_processes(airflow, run_id), 300, "the end of Spark")
    assert airflow.wait_for_run(DAG_ID, run_id) == "failed"
    states = airflow.task_states(DAG_ID, run_id)
    assert (states["replicate"], states["report_lag"], states["outcome"]) == ("failed", "success", "upstream_failed")
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] == "failing", flow["health"]
    folders = list(temporary_folder(airflow.log_path("scheduler")).glob(f"{PREFIX}*"))

    write(source, topic, 100, first=100)
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert not [one for one in folders if one.exists()], "what the killed one had on the disk"
    assert read(target, f"a.{topic}") == read(source, topic)


def test_marked_failed_while_it_copies_without_spark_ends_the_task(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    """It leaves no transaction open and no sign of life, and the next run copies the rest."""
    source, target = clusters
    remote = f"a.{topic}"
    # How large its records are is known, then.
    write(source, topic, 1000)
    first, state = run(airflow, {"topics": [topic]})
    assert state == "success", airflow.task_states(DAG_ID, first)
    for start in range(1000, 301_000, 50_000):
        write(source, topic, 50_000, first=start)
    with (
        # Small chunks, so that there is something on the target long before the end, and a source that is slow.
        settings(airflow, "spark.min.bytes = 1000000000", "chunk.bytes = 100000"),
        quota(source, "consumer_byte_rate", 30_000, "srm.a.b.slot-0"),
    ):
        run_id = airflow.trigger(DAG_ID, {"topics": [topic]})
        wait_until(lambda: sum(map(len, read(target, remote).values())) > 1000, 600, "copying")
        assert airflow.task_states(DAG_ID, run_id)["replicate"] == "running"
        assert not spark_processes(airflow, run_id)
        (copier,) = drivers(target).values()
        process = psutil.Process(copier["pid"])
        airflow.patch(f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/replicate", {"new_state": "failed"})
        wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 300, "its end")
    assert drivers(target) == {}
    wait_until(lambda: nothing_open(target, remote, "mm2-offsets.a.internal"), 300, "the end of its transaction")
    assert airflow.wait_for_run(DAG_ID, run_id) == "failed"
    assert 1000 < sum(map(len, read(target, remote).values())) < 301_000

    run_id, state = run(airflow, {"topics": [topic]})
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, remote) == read(source, topic)


def drivers(target: LocalKafka) -> dict[str, Any]:
    """Signs of life of runs of the flow."""
    nowhere = ClusterSettings.plaintext("a", "127.0.0.1:1")
    flow = FlowSettings(FlowName("a", "b"), nowhere, ClusterSettings.plaintext("b", target.bootstrap_servers))
    with FlowState(flow) as state:
        return driver_presence.drivers(state.read_all())


def nothing_open(kafka: LocalKafka, *topics: str) -> bool:
    """Whether readers of committed records see as far as all others."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    known = kafka.admin().list_topics(timeout=60).topics
    places = {TopicPartition(topic, number): latest for topic in topics for number in known[topic].partitions}
    stable, ends = (
        [future.result(60).offset for future in kafka.admin().list_offsets(places, isolation_level=one).values()]
        for one in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    return stable == ends


def test_lost_records_fail_the_run_at_once_until_the_operator_says_where_to_start(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str, mailbox: Mailbox
) -> None:
    source, target = clusters
    write(source, topic, 100)
    only = {"topics": [topic]}
    assert run(airflow, only)[1] == "success"
    assert not [subject for subject in mailbox.subjects if "disappeared" in subject]
    write(source, topic, 100, first=100)
    # Everything is gone before it was copied, as when retention overtakes a flow.
    whole = {TopicPartition(topic, number, -1) for number in range(2)}
    for future in source.admin().delete_records(list(whole)).values():
        future.result(60)

    run_id, state = run(airflow, only)
    assert state == "failed"
    tasks = airflow.tasks(DAG_ID, run_id)
    assert {task_id for task_id, task in tasks.items() if task["state"] != "success"} == {"replicate", "outcome"}
    assert tasks["replicate"]["try_number"] == 1, "no retry brings the records back"
    assert topic in airflow.log(DAG_ID, run_id, "replicate").rpartition("AirflowFailException")[2]
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] == "lost_data"
    assert topic in flow["health"]["cause"]
    (mail,) = [mail for mail in mailbox.mails if "disappeared" in mail["Subject"]]
    assert "100 records of a->b disappeared at the source before they were copied" in mail["Subject"]
    body = mail.get_body()
    assert body is not None
    assert f"report_lag of {run_id}" in body.get_content()

    write(source, topic, 100, first=200)
    run_id, state = run(airflow, {**only, "start": "earliest"})
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    copied, left = read(target, f"a.{topic}"), read(source, topic)
    assert sum(map(len, copied.values())) == 200
    assert all(rows[len(rows) - len(left[number]) :] == left[number] for number, rows in copied.items())
    log = airflow.log(DAG_ID, run_id, "replicate")
    assert "a->b: 100 records, " in log
    assert "without Spark (spark.min.bytes)" in log
    assert "--flow" not in log, "so little is not worth a Spark job"


def test_figures_are_for_those_who_are_logged_in(airflow: LocalAirflow) -> None:
    import urllib.error
    import urllib.request

    from srm_common.testing.airflow_client import AirflowClient

    for path in ("/srm/api/v2/flows", "/srm/api/v2/flows/a/b"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(airflow.url + path, timeout=120)
        assert refused.value.code == 401
        assert AirflowClient(airflow.url, "watcher", "watcher").get(path)


VARIABLE = "srm_filters__a__b"


@pytest.fixture
def srm_control(
    airflow: LocalAirflow,
    clusters: tuple[LocalKafka, LocalKafka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., str]]:
    """Runs ``srm-control <verb> --flow "a->b" <words>`` against Airflow's REST API; gives what it prints. The lists are
    as in the properties file before and after."""
    from srm_common.cli.main import run as run_cli

    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SRM_CONFIG", airflow.environment["SRM_CONFIG"])
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": clusters[1].bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_B", json.dumps(connection))
    monkeypatch.setenv("SRM_AIRFLOW_URL", airflow.url)
    monkeypatch.setenv("SRM_AIRFLOW_USER", "admin")
    monkeypatch.setenv("SRM_AIRFLOW_PASSWORD", "admin")

    def call(verb: str, *words: str, code: int = 0) -> str:
        capsys.readouterr()
        done = run_cli([verb, "--flow", "a->b", *words])
        captured = capsys.readouterr()
        assert done == code, captured
        return captured.err if code else captured.out

    yield call
    with contextlib.suppress(LocalAirflowError):
        airflow.request("DELETE", f"/api/v2/variables/{VARIABLE}")


def topics_of(kafka: LocalKafka) -> set[str]:
    return set(kafka.admin().list_topics(timeout=60).topics)


def test_an_edit_of_the_filters_acts_at_the_next_run_and_is_remembered(
    airflow: LocalAirflow,
    clusters: tuple[LocalKafka, LocalKafka],
    topic: str,
    srm_control: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = clusters
    later = f"{topic}-later"
    source.create_topic(later, partitions=2)
    write(source, topic, 10)
    write(source, later, 10)

    said = srm_control("topics", "--add-exclude", f"{later},other", "--now")
    assert f"Airflow variable {VARIABLE} at {airflow.url}" in said
    assert f"Stops:  {later}" in said
    run_id = said.partition("tarted run ")[2].split()[0]
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{topic}") == read(source, topic)
    assert f"a.{later}" not in topics_of(target)
    assert f"topics.exclude from Airflow variable {VARIABLE}" in airflow.log(DAG_ID, run_id, "replicate")

    # As on Airflow's own page.
    airflow.patch(f"/api/v2/variables/{VARIABLE}", {"key": VARIABLE, "value": '{"topics.exclude": ["other"]}'})
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{later}") == read(source, later)

    edits = json.loads(srm_control("topics", "--history", "--output", "json"))["edits"]
    assert "as Airflow user admin" in edits[-2]["who"]
    assert (edits[-1]["who"], edits[-1]["note"]) == (None, "found in the Airflow variable")
    assert edits[-1]["before"]["topics.exclude"][-2:] == [later, "other"]
    assert edits[-1]["after"] == {"topics.exclude": ["other"]}

    monkeypatch.setenv("SRM_AIRFLOW_USER", "watcher")
    monkeypatch.setenv("SRM_AIRFLOW_PASSWORD", "watcher")
    assert "denies this to user 'watcher'" in srm_control("topics", "--list", code=3)
    monkeypatch.setenv("SRM_AIRFLOW_PASSWORD", "wrong")
    assert "refuses the login of 'watcher'" in srm_control("topics", "--list", code=3)


def test_a_variable_that_cannot_be_read_keeps_the_last_good_filters_and_says_so(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str, srm_control: Callable[..., str]
) -> None:
    source, target = clusters
    left_out = f"{topic}-left-out"
    source.create_topic(left_out, partitions=2)
    write(source, topic, 10)
    srm_control("topics", "--add-exclude", left_out)
    airflow.patch(f"/api/v2/variables/{VARIABLE}", {"key": VARIABLE, "value": '{"topics.exclude": ['})

    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{topic}") == read(source, topic)
    assert f"a.{left_out}" not in topics_of(target)
    sentence = f"Airflow variable {VARIABLE} cannot be used: this is not JSON"
    for task in ("refresh_topics", "replicate", "sync_checkpoints", "report_lag"):
        assert sentence in airflow.log(DAG_ID, run_id, task)
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["last_run"]["ok"]
    assert any(sentence in warning for warning in flow["warnings"])
    assert sentence in srm_control("status")

    assert "cannot be edited, since they cannot be read" in srm_control("topics", "--add", "x", code=2)
    assert "edited in" in srm_control("topics", "--reset")
    assert srm_control("topics", "--list").splitlines()[:2] == ["Current whitelist:", ".*"]


def test_the_filters_may_be_edited_where_airflow_runs(
    airflow: LocalAirflow, srm_control: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SRM_AIRFLOW_URL")
    for name, value in airflow.environment.items():
        if name.startswith("AIRFLOW"):
            monkeypatch.setenv(name, value)
    said = srm_control("groups", "--add", "g1", "--now")
    assert f"Airflow variable {VARIABLE} in {airflow.directory}" in said
    assert json.loads(airflow.get(f"/api/v2/variables/{VARIABLE}")["value"]) == {"groups": [".*", "g1"]}
    run_id = said.partition("tarted run ")[2].split()[0]
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)


@pytest.mark.timeout(1500)
def test_a_flow_whose_run_waits_for_ever_is_told_once_and_once_when_it_came_right(
    airflow: LocalAirflow, mailbox: Mailbox
) -> None:
    """By the DAG srm.watch, since a run that does not go on tells nobody."""
    file = Path(airflow.environment["SRM_CONFIG"])
    text = file.read_text()

    def mails() -> list[str]:
        return [subject for subject in mailbox.subjects if "has succeeded" in subject]

    def pool_is(name: str) -> Callable[[], bool]:
        return lambda: airflow.get(f"/api/v2/dags/{DAG_ID}/tasks/replicate")["pool"] == name

    def look() -> None:
        run_id = airflow.trigger("srm.watch")
        assert airflow.wait_for_run("srm.watch", run_id) == "success", airflow.log("srm.watch", run_id, "watch")

    pool = f"{text}airflow.pool = not_there_yet\n"
    try:
        file.write_text(pool)
        wait_until(pool_is("not_there_yet"), 300, "the DAG with another pool")
        run_id = airflow.trigger(DAG_ID, {"topics": ["nothing-of-this-name"]})

        def waiting() -> bool:
            return airflow.task_states(DAG_ID, run_id)["replicate"] == "scheduled"

        # The run before it ends first.
        wait_until(waiting, 600, "a task that waits for its pool")
        file.write_text(f"{pool}stalled.after.seconds = 1\n")
        # The one that sees it first lets it be: it might be between two tasks.
        for _ in range(3):
            look()
        (subject,) = mails()
        assert subject.startswith("no run of a->b has succeeded for ")
        assert subject.endswith("; task replicate waits for a slot of pool 'not_there_yet' or of the executor")
        (mail,) = [mail for mail in mailbox.mails if mail["Subject"] == subject]
        body = mail.get_body()
        assert body is not None
        assert "watch of " in body.get_content()

        airflow.create_pool("not_there_yet", 1)
        assert airflow.wait_for_run(DAG_ID, run_id, 600) == "success", airflow.task_states(DAG_ID, run_id)
        assert mails() == [subject]
        file.write_text(f"{pool}stalled.after.seconds = 3600\n")
        for _ in range(2):
            look()
        assert mails() == [subject, f"over: {subject}"]
    finally:
        file.write_text(text)


def test_that_nothing_is_watched_is_told_although_no_task_gets_a_slot(airflow: LocalAirflow, mailbox: Mailbox) -> None:
    airflow.pause("srm.watch")
    try:
        run_id = airflow.trigger("srm.watch")
        subject = f"no flow is watched: run {run_id} of srm.watch has not ended within 5 min"

        def mails() -> list[str]:
            return [told for told in mailbox.subjects if subject in told]

        # Nobody waits for five minutes here.
        with contextlib.closing(sqlite3.connect(airflow.directory / "airflow.db", timeout=120)) as database, database:
            mine = "dagrun_id = (SELECT id FROM dag_run WHERE dag_id = 'srm.watch' AND run_id = ?)"
            changed = database.execute(
                f"UPDATE deadline SET deadline_time = '2026-01-01 00:00:00.000000' WHERE {mine}", (run_id,)
            )
            assert changed.rowcount == 1
        wait_until(mails, 300, "a mail by the triggerer")
    finally:
        airflow.unpause("srm.watch")
    for one in (run_id, airflow.trigger("srm.watch")):
        assert airflow.wait_for_run("srm.watch", one) == "success"
    assert mails() == [subject, f"over: {subject}"]
