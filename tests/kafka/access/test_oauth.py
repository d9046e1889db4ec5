"""Logins by OAUTHBEARER with a real token endpoint, under load: tokens that end, logins that brokers want again over
the same connections (KIP-368), and an endpoint that is silent, fails or answers nonsense. And tokens that a
function returns."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.client.librdkafka import NewTopic
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.shared_admin import SharedAdmin
from srm_common.testing import BrokerJvm, LocalKafka
from tests import token_functions
from tests.faults.live_writer import LiveWriter
from tests.kafka.access.secured import Secured, assert_equal, flow_of, tls_listener, topic_of
from tests.kafka.topic_pairs import run
from tests.token_endpoint import TokenEndpoint, serving

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
#: How long a broker believes a login, and how long a token counts.
REAUTHENTICATION_MS, TOKEN_SECONDS = 10_000, 25
#: Of a run that meets trouble for longer than any token counts.
_PATIENT: dict[str, Any] = {
    "run_max_seconds": TOKEN_SECONDS + 20.0,
    "tasks_max": 1,
    "chunk_seconds": 0.5,
    "retry_timeout_seconds": 300.0,
    "request_timeout_ms": 5_000,
}


def _unsecured(number: int) -> str:
    """A token that a broker without a validator of its own takes (RFC 7515, appendix A.5)."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": "copier", "jti": number, "iat": now, "exp": now + TOKEN_SECONDS}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with serving(token=_unsecured, lifetime=TOKEN_SECONDS) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def sides(broker_jvm: BrokerJvm, endpoint: TokenEndpoint, certificate: Path) -> Iterator[tuple[Secured, Secured]]:
    """A source without TLS, and a target with it."""
    broker = {
        "listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.client.oauthbearer.sasl.jaas.config": f"{_MODULE} required unsecuredLoginStringClaim_sub=a;",
        "listener.name.client.connections.max.reauth.ms": str(REAUTHENTICATION_MS),
    }
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.jaas.config": f'{_MODULE} required clientId="me" clientSecret="hush";',
    }
    tls = {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(certificate.parent / "ca.pem")}
    with (
        LocalKafka(name="source", client_protocol="SASL_PLAINTEXT", settings=broker, jvm=broker_jvm) as source,
        LocalKafka(
            name="target", client_protocol="SASL_SSL", settings=broker | tls_listener(certificate), jvm=broker_jvm
        ) as target,
    ):
        yield Secured(source, login), Secured(target, login | tls)


def _by_function(side: Secured, function: str, options: str = "") -> Secured:
    """The same side with a login by one of :mod:`tests.token_functions`."""
    login = {
        "sasl.oauthbearer.token.provider": f"tests.token_functions:{function}",
        "sasl.jaas.config": f"{_MODULE} required {options};",
    }
    return Secured(side.kafka, {**side.properties, **login})


def test_a_connection_outlives_logins_and_tokens(sides: tuple[Secured, Secured], name: str) -> None:
    """On both sides, and with tokens that a function returns, by both libraries. It is the same connection, although
    the broker ends it without a new login every ten seconds."""
    short = _by_function(sides[0], "unsecured", f'seconds="{REAUTHENTICATION_MS // 1000}"').cluster(name)
    admin = SharedAdmin(short)

    def changes(topic: str) -> None:
        admin.client.create_topics([NewTopic(topic, 1, 1)])[topic].result(300)

    def answers(cluster: ClusterSettings) -> int:
        with ClusterLink(cluster) as link:

            async def work() -> int:
                await link.open([name])
                leader = link.leader(name, 0)
                answers, end = 0, time.monotonic() + 2.5 * REAUTHENTICATION_MS / 1000
                first = await link.ready(leader)
                while time.monotonic() < end:
                    found, faults = await link.offsets([TopicPartition(name, 0)], -1)
                    assert not faults
                    answers += len(found)
                    await link.loop.sleep(0.05)
                assert await link.ready(leader) is first
                return answers

            return link.run(work)

    for side in sides:
        side.kafka.create_topic(name)
    changes(f"{name}-first")
    with ThreadPoolExecutor() as pool:
        assert min(pool.map(answers, (*(side.cluster("a") for side in sides), short))) > 10
    changes(f"{name}-second")
    assert token_functions.asked.count(name) > 2


@pytest.mark.parametrize(
    ("function", "options", "kind", "reason"),
    [
        ("failing", "", UnreachableCluster, "failing gave no token: ConnectionError: the vault does not answer"),
        ("hanging", "", UnreachableCluster, "hanging gave no token in"),
        ("returning", 'token="x" at="1"', UnreachableCluster, "returning gave a token that expired at 1970-01-01T"),
        ("returning", 'token="" at="1"', AccessDenied, "returning returned an empty token"),
        ("returning", 'token="no.to.ken" at="9999999999"', AccessDenied, "refused the login: .*invalid_token"),
    ],
)
def test_a_function_without_a_token_is_one_sentence(
    sides: tuple[Secured, Secured], function: str, options: str, kind: type[Exception], reason: str, name: str
) -> None:
    cluster = _by_function(sides[0], function, options).cluster(name)
    for seconds in (1, 10, 100):  # the reason has to come before the time is over
        with ClusterLink(cluster) as link, pytest.raises(kind) as caught:
            link.run(lambda: link.open(timeout_seconds=seconds))  # noqa: B023
        assert "no.to.ken" not in str(caught.value)
        if re.search(reason, str(caught.value)):
            return
    raise AssertionError(str(caught.value))


def test_a_flow_by_tokens_of_a_function(sides: tuple[Secured, Secured], name: str) -> None:
    """Its topics are made by librdkafka, its records are copied by kafka-python."""
    source, target = (_by_function(side, "unsecured", 'seconds="60"') for side in sides)
    flow = flow_of(source, target, name, tasks_max=1)
    copy = topic_of(source, flow, name, 3)
    with LiveWriter(source.kafka.internal_servers, name, 3, 4, rate=500):
        pass
    record = run(flow)
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert_equal(source, name, target, copy)


def test_a_run_under_load_outlasts_logins_and_tokens(
    sides: tuple[Secured, Secured], endpoint: TokenEndpoint, name: str
) -> None:
    """Longer than any token counts. Nothing has to be repeated: no connection ends."""
    source, target = sides
    flow = flow_of(source, target, name, run_max_seconds=TOKEN_SECONDS + 10.0, tasks_max=1, chunk_seconds=0.5)
    copy = topic_of(source, flow, name, 3)
    asked = len(endpoint.asked)
    with LiveWriter(source.kafka.internal_servers, name, 3, 1, rate=1000):
        record = run(flow)
    assert (record.state, record.retries, record.error) == (RunState.DONE, 0, None), record.notes
    assert record.records > 0
    # Each client of the run has fetched another token than its first.
    assert len(endpoint.asked) > asked + 4
    run(replace(flow, run_max_seconds=0.0))
    assert assert_equal(source, name, target, copy) > 1000


def test_a_run_outlasts_a_token_endpoint_in_trouble(
    sides: tuple[Secured, Secured], endpoint: TokenEndpoint, name: str
) -> None:
    """It fails, is silent and answers nonsense by turns while tokens end; then it is well again."""
    source, target = sides
    flow = flow_of(source, target, name, **_PATIENT)
    copy = topic_of(source, flow, name, 3)
    over = threading.Event()

    def trouble() -> None:
        """From before the first tokens are due until after their end."""
        over.wait(10)
        # A refusal is final once the token before it has ended, so it comes first.
        for how in (401, 500, None, b"HTTP/1.0 200 OK\r\n\r\n<html>", b"nonsense\r\n"):
            with endpoint.in_trouble(how):
                over.wait(TOKEN_SECONDS / 5)

    thread = threading.Thread(target=trouble)
    with LiveWriter(source.kafka.internal_servers, name, 3, 2, rate=500):
        thread.start()
        try:
            record = run(flow)
        finally:
            over.set()
            thread.join(180)
    assert record.records > 0
    record = run(replace(flow, run_max_seconds=0.0))
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(source, name, target, copy) > 500


def test_a_run_outlasts_a_new_client_secret_and_a_restart(
    sides: tuple[Secured, Secured], endpoint: TokenEndpoint, name: str, tmp_path: Path
) -> None:
    """The endpoint refuses the old secret long before the file has the new one: tokens end meanwhile. A broker that is
    restarted wants new logins in between."""
    before, after = endpoint.secret, "hush-hush"
    secret = tmp_path / "secret.properties"
    secret.write_text(f"secret = {before}\n")
    jaas = f'{_MODULE} required clientId="me" clientSecret="${{file:{secret}:secret}}";'
    written = [replace(side, properties={**side.properties, "sasl.jaas.config": jaas}) for side in sides]
    flow = flow_of(*sides, name, **_PATIENT)
    copy = topic_of(sides[0], flow, name, 3)
    source, target = (
        side.in_file(alias, tmp_path) for side, alias in zip(written, (flow.name.source, flow.name.target), strict=True)
    )
    flow = replace(flow, source=source, target=target)
    asked, over = len(endpoint.asked), threading.Event()

    def change() -> None:
        over.wait(8)
        endpoint.secret = after
        sides[0].kafka.restart(1)
        over.wait(TOKEN_SECONDS)
        secret.write_text(f"secret = {after}\n")

    thread = threading.Thread(target=change)
    try:
        with LiveWriter(sides[0].kafka.internal_servers, name, 3, 3, rate=500):
            thread.start()
            try:
                record = run(flow)
            finally:
                over.set()
                thread.join(180)
        assert (record.state, record.error) == (RunState.DONE, None), record.notes
        assert {f"me:{before}", f"me:{after}"} == {login for login, _ in endpoint.asked[asked:]}
        # So does the next one, by the settings as they were read before the change.
        record = run(replace(flow, run_max_seconds=0.0))
        assert (record.state, record.error) == (RunState.DONE, None), record.notes
    finally:
        endpoint.secret = before
    assert assert_equal(sides[0], name, sides[1], copy) > 500
