"""Passwords, users, authorities and certificates that change while a flow runs: nothing is lost, one sentence says what
is wrong, and the flow goes on by itself when it is right again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.errors import AccessDenied, SrmError, UnreachableCluster
from srm_common.testing import BrokerJvm, LocalKafka
from tests.faults.live_writer import LiveWriter
from tests.kafka.access.secured import (
    Secured,
    assert_equal,
    flow_of,
    let_in,
    scram_listener,
    scram_login,
    shut_out,
    tls_listener,
    topic_of,
)
from tests.kafka.access.test_certificates import Certified
from tests.kafka.records import eventually, plain, produce, read_all
from tests.kafka.topic_pairs import Here, run

FIRST, SECOND = "open-sesame-1", "open-sesame-2"
#: How long a broker believes a login: a run meets the change soon.
REAUTHENTICATION_MS = 2_000
_PATIENT: dict[str, Any] = {"chunk_seconds": 0.3, "tasks_max": 1, "request_timeout_ms": 5_000}


@pytest.fixture(scope="module")
def sides(broker_jvm: BrokerJvm, certificate: Path) -> Iterator[tuple[Secured, Secured]]:
    """A source without TLS and a target with it; each has another mechanism."""
    soon = {"listener.name.client.connections.max.reauth.ms": str(REAUTHENTICATION_MS)}
    tls = {"ssl.truststore.location": str(certificate.parent / "ca.pem")}
    with (
        LocalKafka(
            name="source",
            client_protocol="SASL_PLAINTEXT",
            settings=soon | scram_listener("SCRAM-SHA-256"),
            jvm=broker_jvm,
        ) as source,
        LocalKafka(
            name="target",
            client_protocol="SASL_SSL",
            settings=soon | scram_listener("SCRAM-SHA-512") | tls_listener(certificate),
            jvm=broker_jvm,
        ) as target,
    ):
        let_in(target, "copier", FIRST, "SCRAM-SHA-512")
        yield (
            Secured(source, scram_login("copier", FIRST, "SCRAM-SHA-256")),
            Secured(target, scram_login("copier", FIRST, "SCRAM-SHA-512", tls=True) | tls),
        )


def fault_of(flow: FlowSettings, here: Callable[..., object] | None = None) -> str:
    """What a run says that does not end well."""
    try:
        record: RunRecord = run(flow, here)  # type: ignore[arg-type]
    except SrmError as error:
        return str(error)
    assert record.state is RunState.FAILED
    return record.error or next(partition.error for partition in record.partitions if partition.error is not None)


class During(Here):
    """Does something in the first pass, when some of it has been copied."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self._change = change

    def __call__(self, *arguments: object) -> object:  # type: ignore[override]
        if self.passes:
            return super().__call__(*arguments)  # type: ignore[arg-type]
        timer = threading.Timer(REAUTHENTICATION_MS / 1000, self._change)
        timer.start()
        try:
            return super().__call__(*arguments)  # type: ignore[arg-type]
        finally:
            timer.join(180)


def changed(side: Secured, properties: Mapping[str, str]) -> Secured:
    return replace(side, properties={**side.properties, **properties})


@pytest.mark.parametrize("which", [0, 1], ids=["source", "target"])
@pytest.mark.parametrize("how", ["password", "user"])
def test_a_login_that_changes_during_a_run(sides: tuple[Secured, Secured], which: int, how: str, name: str) -> None:
    mechanism = ("SCRAM-SHA-256", "SCRAM-SHA-512")[which]
    for number, one in enumerate(("SCRAM-SHA-256", "SCRAM-SHA-512")):
        let_in(sides[number].kafka, "copier", FIRST, one)
    source, target = sides
    # The change is met within four seconds, and such a run lasts until its time is over.
    flow = flow_of(source, target, name, run_max_seconds=12.0, retry_timeout_seconds=5.0, **_PATIENT)
    copy = topic_of(source, flow, name, 3)
    kafka = sides[which].kafka

    def change() -> None:
        if how == "password":
            let_in(kafka, "copier", SECOND, mechanism)
        else:
            shut_out(kafka, "copier", mechanism)

    alias = (flow.name.source, flow.name.target)[which]
    with LiveWriter(source.kafka.internal_servers, name, 3, which, rate=500):
        text = fault_of(flow, During(change))
        assert re.search(rf"cluster '?{alias}'?.* refused", text), text
        assert "\n" not in text
        # The next run by the schedule, without any change.
        text = fault_of(flow)
        assert re.search(rf"cluster '?{alias}'?.* refused", text), text
        assert FIRST not in text
    password = SECOND if how == "password" else FIRST
    let_in(kafka, "copier", password, mechanism)
    repaired = changed(sides[which], scram_login("copier", password, mechanism, tls=which == 1))
    right = (source, repaired) if which else (repaired, target)
    record = run(replace(flow_of(right[0], right[1], name, **_PATIENT), name=flow.name))
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(source, name, target, copy) > 0


@pytest.mark.parametrize("which", [0, 1], ids=["source", "target"])
@pytest.mark.parametrize("first", ["broker", "file"])
def test_a_password_in_a_file_that_changes_during_a_run(
    sides: tuple[Secured, Secured], which: int, first: str, name: str, tmp_path: Path
) -> None:
    """The run goes on as soon as the broker and the file have the same password, whichever got it first. Its time is
    over long after that, and it does not give up before."""
    for number, one in enumerate(("SCRAM-SHA-256", "SCRAM-SHA-512")):
        let_in(sides[number].kafka, "copier", FIRST, one)
    secret = tmp_path / "secret.properties"
    secret.write_text(f"password = {FIRST}\n")
    flow = flow_of(*sides, name, run_max_seconds=25.0, retry_timeout_seconds=200.0, **_PATIENT)
    mechanism = ("SCRAM-SHA-256", "SCRAM-SHA-512")[which]
    login = scram_login("copier", f"${{file:{secret}:password}}", mechanism, tls=which == 1)
    written = changed(sides[which], login).in_file(str((flow.name.source, flow.name.target)[which]), tmp_path)
    flow = replace(flow, target=written) if which else replace(flow, source=written)
    steps: list[Callable[[], object]] = [
        lambda: let_in(sides[which].kafka, "copier", SECOND, mechanism),
        lambda: secret.write_text(f"password = {SECOND}\n"),
    ]
    later: list[threading.Timer] = []

    def change() -> None:
        before, after = steps if first == "broker" else steps[::-1]
        before()
        later.append(threading.Timer(3 * REAUTHENTICATION_MS / 1000, after))
        later[0].start()

    copy = topic_of(sides[0], flow, name, 3)
    with LiveWriter(sides[0].kafka.internal_servers, name, 3, which, rate=500):
        record = run(flow, During(change))
    later[0].join(180)
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    # So does the next one, by the settings as they were read before the change.
    record = run(replace(flow, run_max_seconds=0.0))
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(sides[0], name, sides[1], copy) > 0


def write_flow(
    file: Path, name: str, target: Secured, settings: Mapping[str, object], login: Mapping[str, str] | None = None
) -> None:
    """The properties file of a flow of one topic, ``name``, from the cluster that ``settings`` describe.

    Args:
        login: to the target, in place of its own.
    """
    alias = name.replace("-", "")
    written: dict[str, object] = {
        "clusters": f"{alias}, target",
        **{f"target.{key}": value for key, value in {**target.properties, **(login or {})}.items()},
        "target.bootstrap.servers": target.kafka.bootstrap_servers,
        f"{alias}->target.enabled": "true",
        f"{alias}->target.topics": name,
        "replication.factor": -1,
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.enabled": "false",
        **settings,
    }
    file.write_text("".join(f"{key} = {value}\n" for key, value in written.items()))


def test_a_password_in_a_file_that_changes_during_a_run_of_spark(
    sides: tuple[Secured, Secured], tmp_path: Path, name: str
) -> None:
    """The driver and the workers of slots read it, each for itself; no task of Spark fails."""
    source, target = sides
    for side, mechanism in zip(sides, ("SCRAM-SHA-256", "SCRAM-SHA-512"), strict=True):
        let_in(side.kafka, "copier", FIRST, mechanism)
    secret, file = tmp_path / "secret.properties", tmp_path / "srm.properties"
    alias = name.replace("-", "")
    copy = f"{alias}.{name}"
    secret.write_text(f"password = {FIRST}\n")
    login = scram_login("copier", f"${{file:{secret}:password}}", "SCRAM-SHA-512", tls=True)
    properties = {f"{alias}.{key}": value for key, value in source.properties.items()}
    properties[f"{alias}.bootstrap.servers"] = source.kafka.bootstrap_servers
    write_flow(file, name, target, {**properties, "tasks.max": 2, "run.max.seconds": 40}, login)
    source.kafka.create_topic(name, 3)
    control = [sys.executable, "-m", "srm_common.cli.main", "--config", str(file), "run", "--flow", f"{alias}->target"]
    with (
        LiveWriter(source.kafka.internal_servers, name, 3, 1, rate=300),
        subprocess.Popen(control, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running,
    ):
        eventually(lambda: any(read_all(target.kafka, copy).values()), 180, "nothing is copied")
        let_in(target.kafka, "copier", SECOND, "SCRAM-SHA-512")
        time.sleep(2 * REAUTHENTICATION_MS / 1000)  # the brokers refuse the first one meanwhile
        secret.write_text(f"password = {SECOND}\n")
        assert running.stdout is not None
        printed = running.stdout.read()
    assert running.returncode == 0, printed
    assert SECOND not in printed
    file.write_text(file.read_text() + "run.max.seconds = 0\n")
    subprocess.run(control, check=True, capture_output=True, timeout=500)
    assert assert_equal(source, name, target, copy) > 0


def test_a_password_that_is_wrong_from_the_start(sides: tuple[Secured, Secured], name: str) -> None:
    """Also where topics are listed first."""
    wrong = changed(sides[0], scram_login("copier", "wrong-sesame", "SCRAM-SHA-256"))
    let_in(sides[0].kafka, "copier", FIRST, "SCRAM-SHA-256")
    let_in(sides[1].kafka, "copier", FIRST, "SCRAM-SHA-512")
    with pytest.raises(AccessDenied, match=r"refused the login: .*; check the login") as caught:
        topic_of(wrong, flow_of(wrong, sides[1], name), name, 1)
    assert "wrong-sesame" not in str(caught.value)


def test_a_password_that_changes_in_a_secrets_backend(
    sides: tuple[Secured, Secured], tmp_path: Path, name: str
) -> None:
    """Airflow's connections come from a backend; processes started before and after the change, as tasks are."""
    source, target = sides
    for side, mechanism in zip(sides, ("SCRAM-SHA-256", "SCRAM-SHA-512"), strict=True):
        let_in(side.kafka, "copier", FIRST, mechanism)
    connections, file = tmp_path / "connections.json", tmp_path / "srm.properties"
    alias = name.replace("-", "")
    write_flow(file, name, target, {f"{alias}.connection": "kafka_source", "retry.timeout.seconds": 5})

    def know(password: str) -> None:
        host, _, port = source.kafka.bootstrap_servers.rpartition(":")
        extra = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
        found = {"conn_type": "kafka", "host": host, "port": int(port), "login": "copier", "password": password}
        connections.write_text(json.dumps({"kafka_source": {**found, "extra": extra}}))

    def control() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "srm_common.cli.main", "--config", str(file), "run", "--flow", f"{alias}->target"],
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_CONN_")},
                "AIRFLOW_HOME": str(tmp_path / "airflow"),
                "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
                "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(connections)}),
            },
            capture_output=True,
            text=True,
            timeout=500,
        )
        return done.returncode, done.stdout + done.stderr

    (tmp_path / "airflow").mkdir()
    source.kafka.create_topic(name)
    produce(source.kafka, name, 0, plain(100))
    know(FIRST)
    code, printed = control()
    assert code == 0, printed
    let_in(source.kafka, "copier", SECOND, "SCRAM-SHA-256")
    produce(source.kafka, name, 0, plain(100, start=100))
    code, printed = control()
    assert code == 3, printed
    assert f"cluster '{alias}'" in printed
    assert "check the login" in printed
    assert FIRST not in printed
    assert "Traceback" not in printed
    know(SECOND)
    code, printed = control()
    assert code == 0, printed
    assert SECOND not in printed
    assert assert_equal(source, name, target, f"{alias}.{name}") == 200


@pytest.fixture(scope="module")
def certified(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    made = Certified(tmp_path_factory.mktemp("certificates"), broker_jvm)
    with made.kafka:
        yield made


def test_an_authority_that_changes_during_a_run(certified: Certified, target_kafka: LocalKafka, name: str) -> None:
    """The broker shows a certificate of another authority; the file with those that are trusted is changed later, while
    the run asks again. A new client certificate at the same path counts as well."""
    folder = certified.first.parent
    trusted, own = folder / "trusted.pem", folder / "own.pem"
    shutil.copy(certified.authority.pem, trusted)
    shutil.copy(certified.authority.vouch_for("copier", file="copier-first"), own)
    source = Secured(
        certified.kafka,
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(trusted),
            "ssl.keystore.location": str(own),
        },
    )
    flow = flow_of(source, Secured(target_kafka), name, run_max_seconds=20.0, retry_timeout_seconds=300.0, **_PATIENT)
    copy = topic_of(source, flow, name, 2)
    later: list[threading.Timer] = []

    def renew() -> None:
        trusted.write_text(certified.authority.pem.read_text() + certified.stranger.pem.read_text())
        shutil.copy(certified.authority.vouch_for("copier", file="copier-second"), own)

    def change() -> None:
        certified.show(certified.stranger.vouch_for("127.0.0.1", file="of-a-stranger"))
        later.append(threading.Timer(3, renew))
        later[0].start()
        certified.kafka.restart(1)

    try:
        with LiveWriter(certified.kafka.internal_servers, name, 2, 7, rate=300):
            record = run(flow, During(change))
        assert later
        later[0].join(180)
        assert (record.state, record.error) == (RunState.DONE, None), record.notes
        record = run(replace(flow, run_max_seconds=0.0))
        assert record.state is RunState.DONE
        assert assert_equal(source, name, Secured(target_kafka), copy) > 0
        # Without the new authority no run begins, and it says why.
        shutil.copy(certified.authority.pem, trusted)
        with pytest.raises((UnreachableCluster, AccessDenied), match="certificate"):
            run(replace(flow, retry_timeout_seconds=1.0))
    finally:
        certified.show(certified.first)
