"""Passwords that reach tasks in five ways are in nothing that Airflow, its processes or this project write down, and in
no environment that they do not come from: after a run that works, in Spark, and after runs with a wrong password or a
host that is gone."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from srm_common.errors import LocalAirflowError
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import MARKER, LocalAirflow
from srm_common.testing.logins import client_properties
from srm_common.testing.ports import ReservedPort
from tests.airflow.mailbox import Mailbox
from tests.kafka.flows import Seen
from tests.kafka.records import produce, read_all

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

#: By the way that a password takes, which is its user's name, too. Looked for as they are.
CANARIES = {
    way: f"c4n4ry-by-{way}-{number}q7"
    for number, way in enumerate(("backend", "database", "file", "environment", "variable"))
}
#: Others that the file has, by what they are for.
LINES = {
    kind: f"c4n4ry-of-{kind}-{number}q8" for number, kind in enumerate(("registry", "scraper", "peer", "notifier"))
}
#: The environment of Airflow's own processes has these, as the administrator wants it.
_OF_ENVIRONMENT = {"environment", "variable"}
#: In the command lines of Spark's Python processes.
_SPARK = ("spark_jobs", "spark_daemon", "pyspark")
_WORK = {"srm.a.b": "success", "srm.c.b": "failed", "srm.d.b": "failed"}
_KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


@pytest.fixture(scope="module")
def kafkas(broker_jvm: BrokerJvm) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """A source and a target, which know all users, but another password of ``file``."""
    logins = {**CANARIES, "file": "another"}
    both = (
        LocalKafka(name="source", logins=logins, jvm=broker_jvm),
        LocalKafka(name="target", logins=logins, jvm=broker_jvm),
    )
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(LocalKafka.start, both))
        for kafka in both:
            rights = [
                AclBinding(
                    kind,
                    name,
                    ResourcePatternType.LITERAL,
                    f"User:{user}",
                    "*",
                    AclOperation.ALL,
                    AclPermissionType.ALLOW,
                )
                for user in logins
                for kind, name in (*((kind, "*") for kind in _KINDS), (ResourceType.BROKER, "kafka-cluster"))
            ]
            for answer in kafka.admin().create_acls(rights).values():
                answer.result(60)
        yield both
    finally:
        for kafka in both:
            kafka.close()


class _Watch:
    """Command lines and environments of all processes of an Airflow, as long as it is open."""

    def __init__(self, airflow: LocalAirflow) -> None:
        self._marker = airflow.environment[MARKER]
        self._others: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen: dict[str, str] = {}
        self.programs: set[str] = set()
        #: By kind of process, the secrets in the environments of any of them.
        self.environments: dict[str, set[str]] = {}

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.3):
            for pid in psutil.pids():
                # Looked at once: a machine has hundreds.
                if pid not in self._others:
                    with contextlib.suppress(psutil.Error, OSError):
                        self._look_at(psutil.Process(pid))

    def _look_at(self, process: psutil.Process) -> None:
        with process.oneshot():
            name, words, environment = process.name(), " ".join(process.cmdline()), process.environ()
        if environment.get(MARKER) != self._marker:
            self._others.add(process.pid)
            return
        self.seen[f"command line of {process.pid}: {name}"] = words
        self.programs.add(name)
        spark = name == "java" or ("python" in name and any(word in words for word in _SPARK))
        kind = f"{name} of Spark" if spark else "Airflow's"
        self.environments.setdefault(kind, set()).update(_canaries_in(str(environment)))


def test_passwords_are_in_nothing_that_is_written_down(
    kafkas: tuple[LocalKafka, LocalKafka], dags_folder: Path, tmp_path: Path, name: str
) -> None:
    source, target = kafkas
    source.create_topic(name, 2)
    produce(source, name, 0, [Seen(b"k", b"v", (), int(time.time() * 1000))] * 200)
    dead = ReservedPort()
    backend = tmp_path / "hidden" / "connections.json"
    backend.parent.mkdir()
    backend.write_text(json.dumps({"kafka_a": _connection("backend", source)}))
    with Mailbox() as mailbox:
        environment = {
            "SRM_CONFIG": str(_configuration(tmp_path, source, dead.address, name)),
            "CANARY": CANARIES["environment"],
            "AIRFLOW_CONN_KAFKA_E": json.dumps(_connection("variable", target)),
            "AIRFLOW_CONN_SMTP_DEFAULT": mailbox.connection,
            "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
            "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
            "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(backend)}),
        }
        # It keeps all that it writes there.
        home = tmp_path / "airflow"
        with LocalAirflow(
            dags_folder=dags_folder,
            directory=home,
            environment=environment,
            connections={"kafka_b": _connection("database", target)},
            refresh_seconds=600,
            triggerer=False,
        ) as airflow:
            with _Watch(airflow) as watch:
                # The scheduler makes them as soon as it sees the DAGs.
                runs = {dag: _first_run(airflow, dag) for dag in _WORK}
                states = {dag: airflow.wait_for_run(dag, run) for dag, run in runs.items()}
            logs = {dag: _logs(airflow, dag, run) for dag, run in runs.items()}
            ends = [text[-2000:] for dag, texts in logs.items() if states[dag] != _WORK[dag] for text in texts.values()]
            assert states == _WORK, "\n\n".join(ends)
            seen = watch.seen | _told(airflow, runs)
            assert watch.environments.pop("Airflow's") == _OF_ENVIRONMENT
            assert watch.environments.keys() > {"java of Spark"}, "Spark has copied"
            assert set().union(*watch.environments.values()) == set(), watch.environments
            assert mailbox.mails, "records that are skipped raise an alarm"
        seen["mails"] = "".join(map(str, mailbox.mails))
    dead.release()
    assert all(logs[dag] for dag in _WORK)
    # It is found where it is.
    assert _canaries_in(backend.read_bytes())
    found = [f"{where} has {secrets}" for where, text in seen.items() if (secrets := _canaries_in(text))]
    for path in home.rglob("*"):
        if path.is_file() and (secrets := _canaries_in(path.read_bytes())):
            found.append(f"{path.relative_to(home)} has {secrets}")
    for kafka in kafkas:
        for topic in kafka.admin().list_topics(timeout=60).topics:
            if topic.startswith(("srm-", "mm2-")) and (secrets := _canaries_in(str(read_all(kafka, topic)))):
                found.append(f"{topic} of {kafka.name} has {secrets}")
    assert found == []


def _first_run(airflow: LocalAirflow, dag: str) -> str:
    airflow.wait_for_dag(dag)
    return str(wait_until(lambda: airflow.runs(dag), 300, f"a first run of {dag}")[-1]["dag_run_id"])


def _connection(way: str, kafka: LocalKafka) -> dict[str, Any]:
    """Its password is where Airflow shows it to nobody: an administrator sees ``sasl.jaas.config`` in the extra."""
    extra = client_properties(way, CANARIES[way])
    del extra["sasl.jaas.config"]
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    login = {"host": host, "port": int(port), "login": way, "password": CANARIES[way]}
    return {"conn_type": "kafka", **login, "extra": json.dumps(extra)}


def _configuration(folder: Path, source: LocalKafka, dead: str, topic: str) -> Path:
    """Three flows to ``b``: from ``a``, and from two that cannot be logged into or reached; and a cluster that no flow
    uses."""
    secrets = folder / "hidden.properties"
    secrets.write_text(f"password = {CANARIES['file']}\n")
    lines = ["clusters = a, b, c, d, e", *(f"{alias}.connection = kafka_{alias}" for alias in "abe")]
    for alias, servers, user, password in (
        ("c", source.bootstrap_servers, "file", f"${{file:{secrets}:password}}"),
        ("d", dead, "environment", "${env:CANARY}"),
    ):
        lines.append(f"{alias}.bootstrap.servers = {servers}")
        lines += [f"{alias}.{key} = {value}" for key, value in client_properties(user, password).items()]
    for flow in ("a->b", "c->b", "d->b"):
        lines += [f"{flow}.enabled = true", f"{flow}.topics = {topic}"]
    # No value is JSON, which raises an alarm.
    lines += ["a->b.value.format = json", "a->b.errors.tolerance = all", "a->b.transforms = number"]
    lines += [
        f"a->b.transforms.number.{key}"
        for key in ("type = org.apache.kafka.connect.transforms.Cast$Value", "spec = n:int32")
    ]
    lines += [
        "schedule.interval.seconds = 86400",
        "task.retries = 0",
        "retry.timeout.seconds = 2",
        "replication.factor = 1",
        "offset.storage.replication.factor = 1",
        "status.storage.replication.factor = 1",
        "config.storage.replication.factor = 1",
        "metrics.topic.enabled = true",
        f"a.schema.registry.url = http://srm:{LINES['registry']}@127.0.0.1:1",
        f"metrics.prometheus.token = {LINES['scraper']}",
        "service.peer.other.example.com.user = srm",
        f"service.peer.other.example.com.password = {LINES['peer']}",
        "alarm.notifiers = mail, nobody",
        "alarm.notifier.nobody.class = airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        f"alarm.notifier.nobody.token = {LINES['notifier']}",
        "alarm.notifier.mail.class = airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        "alarm.notifier.mail.to = ops@example.com",
        "alarm.notifier.mail.subject = {{ alarm.text }}",
        "alarm.notifier.mail.html_content = {{ ti.task_id }} of {{ run_id }}",
    ]
    file = folder / "srm.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


def _logs(airflow: LocalAirflow, dag: str, run: str) -> dict[str, str]:
    states = airflow.task_states(dag, run)
    return {task: airflow.log(dag, run, task) for task, state in states.items() if state in ("success", "failed")}


def _told(airflow: LocalAirflow, runs: dict[str, str]) -> dict[str, str]:
    """What Airflow's API and ours answer to an administrator."""
    paths = ["/api/v2/variables", "/api/v2/eventLogs", "/api/v2/connections", "/api/v2/importErrors"]
    paths += ["/srm/api/v2/flows", "/srm/metrics", "/srm/api/v2/events"]
    for dag, run in runs.items():
        source, target = dag.removeprefix("srm.").split(".")
        paths += [f"/api/v2/dagSources/{dag}", f"/api/v2/dags/{dag}/details", f"/api/v2/dags/{dag}/dagRuns/{run}"]
        paths.append(f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")
        of = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances"
        paths += [f"{of}/{task}/xcomEntries" for task in airflow.task_states(dag, run)]
        flow = f"/srm/api/v2/flows/{source}/{target}"
        paths += [flow, *(f"{flow}/{part}" for part in ("topics", "groups", "settings", "runs", "plan", "filters"))]
    seen = {}
    for path in paths:
        # Some exist for some flows only; what a refusal says is looked at, too.
        try:
            seen[path] = str(airflow.get(path))
        except (LocalAirflowError, JSONDecodeError) as error:
            seen[path] = f"{error} {getattr(error, 'doc', '')}"
    assert sum("a->b" in text for text in seen.values()) >= 3
    return seen


def _canaries_in(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [what for what, secret in (CANARIES | LINES).items() if secret.encode() in data]
