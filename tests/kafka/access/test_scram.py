"""Logins by SCRAM with names that have signs of its own, and by delegation tokens, which librdkafka does not know."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.artifacts import kafka_tools_jars
from srm_common.testing.java import java_command
from tests.kafka.access.secured import (
    Secured,
    assert_equal,
    flow_of,
    let_in,
    scram_listener,
    scram_login,
    topic_of,
)
from tests.kafka.records import eventually, plain, produce
from tests.kafka.topic_pairs import run

_PASSWORD = "s=c,r,a=m"
_OWNER = "owner,of=tokens"
_TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


@pytest.fixture(scope="module")
def kafka(broker_jvm: BrokerJvm) -> Iterator[LocalKafka]:
    """A broker that gives the owner all rights, and others none."""
    listener = {
        **scram_listener("SCRAM-SHA-256"),
        **scram_listener("SCRAM-SHA-512"),
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.client.connections.max.reauth.ms": "3000",
        "delegation.token.secret.key": "key-of-the-tests",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{_OWNER}",
    }
    with LocalKafka(client_protocol="SASL_PLAINTEXT", settings=listener, jvm=broker_jvm) as running:
        let_in(running, _OWNER, _PASSWORD, "SCRAM-SHA-256")
        yield running


@dataclass(frozen=True)
class Token:
    """``hmac`` is its secret, as text."""

    id: str
    hmac: str


def token_of(kafka: LocalKafka, folder: Path, life_seconds: int) -> Token:
    """A new token of the owner's."""
    config = folder / "owner.properties"
    login = scram_login(_OWNER, _PASSWORD, "SCRAM-SHA-256")
    config.write_text("".join(f"{key}={value}\n" for key, value in login.items()))
    done = subprocess.run(
        [
            *java_command(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{kafka_tools_jars()}/*", _TOOL,
            "--bootstrap-server", kafka.bootstrap_servers, "--command-config", str(config),
            "--create", "--max-life-time-period", str(life_seconds * 1000),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    found = re.search(r"^(\S{22})\s+(\S{40,})\s", done.stdout, re.M)
    assert found is not None, done.stdout + done.stderr
    token = Token(found[1], found[2])
    # The broker takes it in a moment after the answer.
    eventually(lambda: logged_in(Secured(kafka, by_token(token)).cluster("a")), 300, "the token is not known")
    return token


def logged_in(cluster: ClusterSettings) -> bool:
    try:
        with ClusterLink(cluster) as link:
            link.run(link.open)
    except AccessDenied:
        return False
    return True


def by_token(token: Token, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """What a properties file says."""
    login = scram_login(token.id, token.hmac, mechanism)
    login["sasl.jaas.config"] = login["sasl.jaas.config"].replace(";", ' tokenauth="true";')
    return login


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_name_may_have_signs_of_the_protocol(
    source_kafka: LocalKafka, kafka: LocalKafka, mechanism: str, name: str
) -> None:
    let_in(kafka, _OWNER, _PASSWORD, mechanism)
    source, target = Secured(source_kafka), Secured(kafka, scram_login(_OWNER, _PASSWORD, mechanism))
    flow = flow_of(source, target, name)
    copy = topic_of(source, flow, name, 2)
    produce(source_kafka, name, 0, plain(100))
    record = run(flow)
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(source, name, target, copy) == 100


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_flow_logs_in_by_delegation_tokens(
    source_kafka: LocalKafka, kafka: LocalKafka, mechanism: str, tmp_path: Path, name: str
) -> None:
    """Over connections that prove themselves again every three seconds. What librdkafka does elsewhere,
    such as creating the copy, is done without it."""
    token = token_of(kafka, tmp_path, 3600)
    source, target = Secured(source_kafka), Secured(kafka, by_token(token, mechanism))
    flow = flow_of(source, target, name, run_max_seconds=8.0)
    copy = topic_of(source, flow, name, 2)
    produce(source_kafka, name, 0, plain(100))
    record = run(flow)
    assert (record.state, record.error, record.retries) == (RunState.DONE, None, 0), record.notes
    assert assert_equal(source, name, target, copy) == 100
    assert token.hmac not in repr(flow)


def test_a_token_that_has_ended_is_one_sentence(
    source_kafka: LocalKafka, kafka: LocalKafka, tmp_path: Path, name: str
) -> None:
    token = token_of(kafka, tmp_path, 20)
    source, target = Secured(source_kafka), Secured(kafka, by_token(token))
    flow = flow_of(source, target, name)
    copy = topic_of(source, flow, name, 1)
    produce(source_kafka, name, 0, plain(10))
    # Brokers look for tokens that have ended once an hour; until then they end each connection behind the login.
    said = ""

    def ended() -> bool:
        nonlocal said
        try:
            with ClusterLink(flow.target) as link:
                link.run(lambda: link.open(timeout_seconds=2))
        except UnreachableCluster as error:
            said = str(error)
        return bool(said)

    eventually(ended, 300, "the token does not end")
    assert re.search("not reachable: .*; if the delegation token of the login has ended, put a new one", said)
    assert token.hmac not in said
    wrong = Secured(kafka, by_token(replace(token, hmac="other")))
    with ClusterLink(wrong.cluster("a")) as link, pytest.raises(AccessDenied, match=r"; check whether its delegation"):
        link.run(link.open)
    fresh = Secured(kafka, by_token(token_of(kafka, tmp_path, 3600)))
    record = run(replace(flow_of(source, fresh, name), name=flow.name))
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(source, name, target, copy) == 10


def test_without_the_word_a_token_is_no_user(
    source_kafka: LocalKafka, kafka: LocalKafka, tmp_path: Path, name: str
) -> None:
    token = token_of(kafka, tmp_path, 3600)
    wrong = Secured(kafka, scram_login(token.id, token.hmac, "SCRAM-SHA-256"))
    other = Secured(source_kafka)
    with pytest.raises(AccessDenied, match="refused the login"):
        topic_of(other, flow_of(other, wrong, name), name, 1)
