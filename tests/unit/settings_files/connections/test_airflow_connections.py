from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.cluster import NO_AUTO_CREATION
from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.replication.driver.run_folder import run_folder
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.connections.airflow_connections import AirflowConnection, from_environment, variable_name
from srm_common.settings_files.sources.secret_variables import answering, hand_over

BASE = "clusters = A, B\nA.connection = kafka_east\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
ROOT = Path(__file__).parents[4]
SECRET = {
    "conn_type": "kafka",
    "host": "east-1,east-2:9099",
    "port": 9093,
    "login": "replicator",
    "password": "hush-${env:HOME}",
    "extra": {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "ssl.ca.location": "/ca.pem"},
}


def load(
    tmp_path: Path, connection: dict[str, Any] | str | None, monkeypatch: pytest.MonkeyPatch, text: str = BASE
) -> Configuration:
    path = tmp_path / "srm.properties"
    path.write_text(text)
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_EAST", raising=False)
    if connection is not None:
        value = connection if isinstance(connection, str) else json.dumps(connection)
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EAST", value)
    return load_configuration(path, from_environment)


def test_a_connection_says_how_to_reach_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = load(tmp_path, SECRET, monkeypatch).flow("A->B")
    assert flow.source.bootstrap_servers == "east-1:9093,east-2:9099"
    assert flow.source.confluent == {
        **NO_AUTO_CREATION,
        "client.id": "srm.A.B",
        "socket.connection.setup.timeout.ms": "10000",  # librdkafka has 30 s
        "bootstrap.servers": "east-1:9093,east-2:9099",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "replicator",
        "sasl.password": "hush-${env:HOME}",  # no reference: the text is a password, not this file's
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert flow.source.kafka_python["sasl_plain_password"] == "hush-${env:HOME}"
    assert flow.target.bootstrap_servers == "b:1"


def test_a_password_of_digits_may_lack_its_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = load(tmp_path, SECRET | {"password": 123456}, monkeypatch).flow("A->B")
    assert flow.source.confluent["sasl.password"] == "123456"
    (fault,) = load(tmp_path, SECRET | {"host": ["east-1"]}, monkeypatch).faults.values()
    assert "neither JSON nor a URI" in str(fault)


def test_the_same_as_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "kafka://replicator:hu%2Fsh@east-1:9093/?security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN"
    flow = load(tmp_path, uri, monkeypatch).flow("A->B")
    assert flow.source.bootstrap_servers == "east-1:9093"
    assert flow.source.confluent["sasl.password"] == "hu/sh"
    whole = "kafka://?__extra__=%7B%22bootstrap.servers%22%3A+%22x%3A1%2Cy%3A2%22%7D"
    assert load(tmp_path, whole, monkeypatch).flow("A->B").source.bootstrap_servers == "x:1,y:2"


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("kafka://[2001:db8::1]:9093/", "[2001:db8::1]:9093"),
        ({"host": "2001:db8::1"}, "[2001:db8::1]:9092"),
        ({"host": "[2001:db8::1]:9093, [2001:db8::2]"}, "[2001:db8::1]:9093,[2001:db8::2]:9092"),
    ],
)
def test_addresses_of_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any] | str, address: str
) -> None:
    assert load(tmp_path, connection, monkeypatch).flow("A->B").source.bootstrap_servers == address


def test_the_file_goes_before_the_connection_and_the_connection_before_what_counts_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = BASE + "A.bootstrap.servers = proxy:1\nsecurity.protocol = SSL\nclient.dns.lookup = use_all_dns_ips\n"
    flow = load(tmp_path, {"host": "h", "extra": {"security.protocol": "PLAINTEXT"}}, monkeypatch, text).flow("A->B")
    assert flow.source.bootstrap_servers == "proxy:1"
    assert flow.source.confluent["security.protocol"] == "PLAINTEXT"
    assert flow.source.confluent["client.dns.lookup"] == "use_all_dns_ips"
    assert flow.target.confluent["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("connection", "sentence"),
    [
        (None, "srm.properties:2: A.connection names the Airflow connection 'kafka_east', which this process does not "
         "find, or which Airflow's secrets backend did not return; create it, or set the environment variable "
         "AIRFLOW_CONN_KAFKA_EAST"),
        ("hush hush", "the value of AIRFLOW_CONN_KAFKA_EAST is neither JSON nor a URI of an Airflow connection"),
        ('{"password": "hush', "the value of AIRFLOW_CONN_KAFKA_EAST is neither JSON nor a URI of an Airflow"),
        ({"host": "h", "extra": "hush"}, "Airflow connection kafka_east: its extra is not JSON"),
        ({"host": "h", "login": "u", "password": "hush"}, "Airflow connection kafka_east: has a login, but its extra "
         "does not say how to log in; add security.protocol"),
        ({"extra": {}}, "srm.properties: cluster A has no address; set A.bootstrap.servers"),
        ({"host": "h:x"}, "Airflow connection kafka_east: bootstrap.servers: 'h:x:9092' is not host:port"),
        ({**SECRET, "extra": {"security.protocol": "SASL_SSL"}}, "Airflow connection kafka_east: security.protocol: "
         "login by GSSAPI, Java's default where sasl.mechanism is not set, needs sasl.jaas.config with "
         "Krb5LoginModule"),
        ({"host": "h", "extra": {"enable.ssl.certificate.verification": False}},
         "Airflow connection kafka_east: enable.ssl.certificate.verification=false is not available"),
    ],
)  # fmt: skip
def test_what_may_be_wrong_with_it_is_one_sentence_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any] | str | None, sentence: str
) -> None:
    configuration = load(tmp_path, connection, monkeypatch)
    fault = str(configuration.faults[FlowName("A", "B")])
    assert sentence in fault
    assert "hush" not in fault
    assert "B" in configuration.clusters


def test_repr_hides_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = load(tmp_path, SECRET, monkeypatch)
    assert "hush" not in repr(configuration) + repr(configuration.connection("A"))


@pytest.mark.parametrize("by_file", [True, False], ids=["by a file", "by its environment"])
def test_another_process_finds_it(tmp_path: Path, by_file: bool) -> None:
    """As the Spark driver does: no Airflow in the process, nothing on its command line."""
    extra = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}
    connection = AirflowConnection("kafka_east", host="h", login="u", password="hush", extra=extra)
    path = tmp_path / "srm.properties"
    path.write_text(BASE)
    configuration = load_configuration(path, {"kafka_east": connection}.get)
    secrets = configuration.secret_variables(FlowName("A", "B"))
    assert json.loads(secrets[variable_name("kafka_east")])["password"] == "hush"
    file = tmp_path / "secrets.json"
    handed_over = hand_over(file, secrets) if by_file else secrets
    assert ("hush" in str(handed_over)) is not by_file
    code = (
        "import sys; from pathlib import Path; from srm_common.settings_files.configuration import load_configuration; "
        "from srm_common.settings_files.connections.airflow_connections import from_environment; "
        "flows = [load_configuration(Path(sys.argv[1]), from_environment).flow('A->B') for _ in range(2)]; "
        "print(*[flow.source.confluent['sasl.password'] for flow in flows], 'airflow' in sys.modules)"
    )
    environment = {**os.environ, **handed_over, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert answer.stdout.split() == ["hush", "hush", "False"], answer.stderr
    assert not file.exists(), "it is gone once it is read"


def test_another_process_learns_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the Spark driver does when its login is refused: the task looks the connection up again, in Airflow."""
    extra = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}
    known = {"kafka_east": AirflowConnection("kafka_east", host="h", login="u", password="hush", extra=extra)}
    path = tmp_path / "srm.properties"
    path.write_text(BASE)

    def secrets() -> dict[str, str]:
        return load_configuration(path, known.get).secret_variables(FlowName("A", "B"))

    code = (
        "import sys; from pathlib import Path; from srm_common.settings_files.configuration import load_configuration; "
        "from srm_common.settings_files.connections.airflow_connections import from_environment; "
        "source = load_configuration(Path(sys.argv[1]), from_environment).flow('A->B').source.login_source; "
        "print(source.place, flush=True); input(); print(source.read().confluent['sasl.password'])"
    )
    with run_folder() as folder:
        handed_over = hand_over(folder / "secrets.json", secrets())
        for name, value in handed_over.items():
            monkeypatch.setenv(name, value)  # as in the task, whose own it is not
        with (
            answering(folder, secrets),
            subprocess.Popen(
                [sys.executable, "-c", code, str(path)],
                env={**os.environ, **handed_over, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as driver,
        ):
            assert driver.stdout is not None
            assert driver.stdout.readline().strip() == "Airflow connection kafka_east"
            known["kafka_east"] = replace(known["kafka_east"], password="hush-hush")
            printed, _ = driver.communicate("\n", timeout=300)
        assert printed.strip() == "hush-hush"
        assert list(folder.iterdir()) == []


def test_a_login_of_a_connection_is_looked_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}
    known = {"kafka_east": AirflowConnection("kafka_east", host="h", login="u", password="hush", extra=extra)}
    path = tmp_path / "srm.properties"
    path.write_text(BASE)
    cluster = load_configuration(path, known.get).flow("A->B").source
    source = cluster.login_source
    assert source is not None
    assert source.read() == cluster.login
    travelled = pickle.dumps(source)
    assert b"hush" not in travelled
    with pytest.raises(ConfigError, match="Airflow connection kafka_east: is looked up where the settings were read"):
        pickle.loads(travelled).read()
    known["kafka_east"] = replace(known["kafka_east"], login="v", password="hush-hush")
    login = source.read()
    assert (login.confluent["sasl.username"], login.confluent["sasl.password"]) == ("v", "hush-hush")
    known.clear()
    with pytest.raises(ConfigError, match="Airflow connection kafka_east: is no longer found"):
        source.read()
    # What a process's own environment says never changes.
    variable = AirflowConnection("kafka_east", host="h", login="u", password="hush", extra=extra)
    monkeypatch.setenv(variable.variable, variable.to_json())
    assert load_configuration(path, from_environment).flow("A->B").source.login_source is None


def test_without_asking_a_cluster_is_known_by_its_connections_name(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(BASE)
    flow = load_configuration(path, connections=None).flow("A->B")
    assert flow.source.bootstrap_servers == "Airflow connection kafka_east"
