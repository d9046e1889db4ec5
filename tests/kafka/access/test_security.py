"""TLS and SASL settings of the properties file reach both Kafka clients, and batches go through TLS unopened."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka.protocol.metadata import ApiVersionsRequest, MetadataResponse

from srm_common.domain.cluster import ClusterSettings, OauthClient
from srm_common.domain.runs.copying import CopyJob, CopyRange, SlotTask
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.client.connections.dialing import SILENT
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.slot import copy_slot
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import BrokerJvm, LocalKafka
from tests.silent_peers import named, peer
from tests.token_endpoint import serving

SECRET = "open-sesame-7"


@pytest.fixture(scope="module")
def secured(broker_jvm: BrokerJvm, certificate: Path) -> Iterator[LocalKafka]:
    """A cluster whose clients need TLS and a PLAIN login."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    with LocalKafka(
        name="secured",
        client_protocol="SASL_SSL",
        settings={
            "listener.name.client.ssl.keystore.type": "PEM",
            "listener.name.client.ssl.keystore.location": str(certificate),
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f'{login} required user_copier="{SECRET}";',
        },
        jvm=broker_jvm,
    ) as kafka:
        yield kafka


def _configuration(path: Path, source: str, target: str, ca: Path, password: str) -> Path:
    path.write_text(
        f"""clusters = a, b
a.bootstrap.servers = {source}
b.bootstrap.servers = {target}
a.security.protocol = SASL_SSL
a.sasl.mechanism = PLAIN
a.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="copier" password="{password}";
a.ssl.truststore.type = PEM
a.ssl.truststore.location = {ca}
a->b.enabled = true
"""
    )
    return path


def test_copy_through_tls_and_sasl(
    secured: LocalKafka, target_kafka: LocalKafka, certificate: Path, tmp_path: Path, name: str
) -> None:
    secured.create_topic(name, partitions=2)
    target_kafka.create_topic(f"a.{name}", partitions=2)
    offsets, segments = f"{name}-offsets", f"{name}-segments"
    for topic in (offsets, segments):
        target_kafka.create_topic(topic, partitions=3, config={"cleanup.policy": "compact"})
    file = _configuration(
        tmp_path / "srm.properties",
        secured.bootstrap_servers,
        target_kafka.bootstrap_servers,
        certificate.parent / "ca.pem",
        SECRET,
    )
    flow = load_configuration(file).flow("a->b")
    assert SECRET not in repr(flow)
    producer = Producer({**flow.source.confluent, "linger.ms": 20, "batch.size": 500_000})
    for number in range(4000):
        producer.produce(name, key=str(number), value=b"%06d" % number * 500, partition=number % 2)
    producer.flush()
    assert name in AdminClient(dict(flow.source.confluent)).list_topics(timeout=60).topics

    with ClusterLink(flow.source) as link:
        ends, faults = link.end_offsets([TopicPartition(name, 0), TopicPartition(name, 1)])
    assert not faults
    job = CopyJob(str(flow.name), "a", flow.source, flow.target, offsets, 3, segments, 3, fetch_bytes=2 << 20)
    with Ownership.take(flow, 1, 1) as owner:
        ranges = tuple(CopyRange(name, f"a.{name}", p, 0, ends[TopicPartition(name, p)]) for p in range(2))
        result = copy_slot(job, SlotTask(0, owner.identities[0], ranges))
    assert [
        (range_result.position, range_result.copied.records, range_result.error) for range_result in result.ranges
    ] == [(2000, 2000, None)] * 2


def test_an_address_that_never_answers_in_tls_holds_up_no_connection_to_a_broker(
    secured: LocalKafka, certificate: Path, tmp_path: Path
) -> None:
    """It takes the connection; a second address of the name is the broker's."""
    ca = certificate.parent / "ca.pem"
    port = int(secured.bootstrap_servers.rpartition(":")[2])
    file = _configuration(tmp_path / "srm.properties", secured.bootstrap_servers, "127.0.0.1:1", ca, SECRET)
    with file.open("a") as properties:
        properties.write("a.socket.connection.setup.timeout.ms = 600000\n")
        properties.write("a.ssl.endpoint.identification.algorithm =\n")
    cluster = load_configuration(file).flow("a->b").source
    request = ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    with (
        named("broker.example", "127.0.0.9", "127.0.0.1"),
        peer(host="127.0.0.9", port=port),
        ClusterLink(cluster) as link,
    ):
        link.run(lambda: link.open(timeout_seconds=300))
        brokers = link.manager.cluster._brokers
        brokers[7] = MetadataResponse.MetadataResponseBroker(7, "broker.example", port, None)
        assert link.run(lambda: link.send(7, request, timeout_ms=300_000)).error_code == 0
        assert ("127.0.0.9", port) in SILENT
        SILENT.forget(("127.0.0.9", port))


def test_wrong_password_is_one_sentence_without_the_password(
    secured: LocalKafka, target_kafka: LocalKafka, certificate: Path, tmp_path: Path
) -> None:
    file = _configuration(
        tmp_path / "srm.properties",
        secured.bootstrap_servers,
        target_kafka.bootstrap_servers,
        certificate.parent / "ca.pem",
        "not-the-password",
    )
    flow = load_configuration(file).flow("a->b")
    with ClusterLink(flow.source) as link, pytest.raises(AccessDenied) as caught:
        link.end_offsets([TopicPartition("any", 0)], timeout_seconds=60)
    assert re.match(r"cluster 'a' \(.+\) refused the login: .+; check the login$", str(caught.value))
    assert "not-the-password" not in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "secure", "sentence"),
    [
        (
            "PLAINTEXT",
            True,
            "{0} (speaks TLS|closed the connection at the first request); .*security.protocol to SSL",
        ),
        ("SSL", False, "{0} closed the connection during the TLS handshake; .*set security.protocol to PLAINTEXT"),
        ("SSL", True, "{0}: .* if its listener requires authentication, set security.protocol to SASL_"),
    ],
)
def test_a_wrong_protocol_is_named(
    secured: LocalKafka, target_kafka: LocalKafka, certificate: Path, protocol: str, secure: bool, sentence: str
) -> None:
    server = (secured if secure else target_kafka).bootstrap_servers
    arguments = {"bootstrap_servers": [server], "security_protocol": protocol, "ssl_cafile": certificate}
    for seconds in (1, 10, 100):  # a server is asked until the time is over: little, where that is enough
        with (
            ClusterLink(ClusterSettings("a", server, {}, arguments)) as link,
            pytest.raises(UnreachableCluster) as caught,
        ):
            link.run(lambda: link.open(timeout_seconds=seconds))  # noqa: B023
        if re.search(sentence.format(server), str(caught.value)):
            return
    raise AssertionError(str(caught.value))


def _unsecured(number: int) -> str:
    """A token that a broker without a validator of its own takes (RFC 7515, appendix A.5)."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": f"copier-{number}", "iat": now, "exp": now + 3600}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def test_login_by_oauth_outlasts_failures_of_the_token_endpoint(broker_jvm: BrokerJvm) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    kafka = LocalKafka(
        name="oauth",
        client_protocol="SASL_PLAINTEXT",
        settings={
            "listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.client.oauthbearer.sasl.jaas.config": f"{module} required unsecuredLoginStringClaim_sub=a;",
        },
        jvm=broker_jvm,
    )
    with kafka, serving(token=_unsecured) as endpoint:
        login = OauthClient(endpoint.url, "me", "hush")
        arguments = {
            "bootstrap_servers": [kafka.bootstrap_servers],
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": login,
            "socket_connection_setup_timeout_ms": 300_000,
        }
        endpoint.failures = [503, 503]
        with ClusterLink(ClusterSettings("a", kafka.bootstrap_servers, {}, arguments)) as link:
            link.run(lambda: link.open(timeout_seconds=300))
            assert link.run(link.any_node) == 1
        assert len(endpoint.asked) == 3
        # A refresh that meets a refusal leaves it to the next use.
        refused = {**arguments, "sasl_oauth_token_provider": OauthClient(endpoint.url, "me", "wrong")}
        with ClusterLink(ClusterSettings("a", kafka.bootstrap_servers, {}, refused)) as link:
            link.run(link.refresh)
            with pytest.raises(AccessDenied, match="gave no token: status 401; check the client's id"):
                link.run(lambda: link.open(timeout_seconds=300))
