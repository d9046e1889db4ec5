"""Certificates that end, have ended, are for another host or of an unknown authority, on brokers with mutual TLS."""

from __future__ import annotations

import datetime
import logging
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.monitoring.certificates import DAY_MS
from srm_common.domain.settings.layers import Entry
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.links.certificates import certificate_end
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.testing import BrokerJvm, LocalKafka
from tests.kafka.authority import Authority
from tests.kafka.records import eventually

DAY = datetime.timedelta(days=1)


class Certified:
    """A cluster of one broker, an authority that both sides trust and one that nobody does.

    :meth:`show` gives the broker another certificate while it runs.
    """

    def __init__(self, folder: Path, jvm: BrokerJvm) -> None:
        self.authority = Authority(folder, "authority")
        self.stranger = Authority(folder, "stranger")
        self.first = self.authority.vouch_for("127.0.0.1", ends=20 * DAY)
        self.kafka = LocalKafka(
            client_protocol="SSL",
            settings={
                "listener.name.client.ssl.keystore.type": "PEM",
                "listener.name.client.ssl.keystore.location": str(self.first),
                "listener.name.client.ssl.truststore.type": "PEM",
                "listener.name.client.ssl.truststore.location": str(self.authority.pem),
                "listener.name.client.ssl.client.auth": "required",
                "ssl.allow.san.changes": "true",
                "ssl.allow.dn.changes": "true",
            },
            jvm=jvm,
        )

    def show(self, certificate: Path) -> None:
        """The broker's certificate from now on (KIP-226); it takes it a moment after the answer."""
        entry = ConfigEntry(
            "listener.name.client.ssl.keystore.location",
            str(certificate),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        self.kafka.admin().incremental_alter_configs([resource])[resource].result(60)
        expected = ssl.PEM_cert_to_DER_cert(certificate.read_text().partition("-----END PRIVATE KEY-----")[2].strip())
        host, _, port = self.kafka.bootstrap_servers.rpartition(":")
        eventually(
            lambda: ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port)))) == expected,
            300,
            f"the broker does not show {certificate}",
        )

    def cluster(self, own: Path | None, trusted: Path | None = None, servers: str = "") -> ClusterSettings:
        written = {
            "bootstrap.servers": servers or self.kafka.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(trusted or self.authority.pem),
            **({} if own is None else {"ssl.keystore.location": str(own)}),
        }
        entries = {key: Entry(f"a.{key}", value, "f", 1) for key, value in written.items()}
        return cluster_settings("a", entries, lambda entry: entry.value)


@pytest.fixture(scope="module")
def certified(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    made = Certified(tmp_path_factory.mktemp("certificates"), broker_jvm)
    with made.kafka:
        yield made


def days_left(end_ms: int | None) -> float:
    assert end_ms is not None
    return (end_ms - datetime.datetime.now().timestamp() * 1000) / DAY_MS


def test_the_first_end_is_the_brokers_or_ours_or_the_authoritys(certified: Certified) -> None:
    """Of 40 days for the authority, 20 for the broker; ours ends before or after."""
    ours = certified.authority.vouch_for("copier", ends=30 * DAY, file="later")
    end = certificate_end(certified.cluster(ours))
    assert end is not None
    assert end.complete
    assert end.holder == f"the certificate of broker {certified.kafka.bootstrap_servers} (CN=127.0.0.1)"
    assert 19.9 < days_left(end.ends_ms) < 20
    ours = certified.authority.vouch_for("copier", ends=10 * DAY, file="sooner")
    end = certificate_end(certified.cluster(ours))
    assert end is not None
    assert end.holder == "the client certificate (CN=copier) for the brokers"
    assert 9.9 < days_left(end.ends_ms) < 10


def test_a_cluster_without_tls_has_none_and_one_that_is_away_is_not_known(
    certified: Certified, source_kafka: LocalKafka
) -> None:
    end = certificate_end(ClusterSettings.plaintext("b", source_kafka.bootstrap_servers))
    assert end is not None
    assert (end.cluster, end.ends_ms) == ("b", None)
    assert certificate_end(certified.cluster(certified.first, servers="127.0.0.1:1")) is None


def sentence_of(cluster: ClusterSettings, expected: str) -> str:
    """Why the cluster is not reachable. A server is asked until the time is over: little, where that is enough."""
    for seconds in (1, 10, 100):
        with ClusterLink(cluster) as link, pytest.raises(UnreachableCluster) as caught:
            link.run(lambda: link.open(timeout_seconds=seconds))  # noqa: B023
        if re.search(expected, str(caught.value)):
            break
    return str(caught.value)


def test_what_is_wrong_with_a_certificate_is_one_sentence(certified: Certified) -> None:
    """It names cluster, host and port, and what to do."""
    ours = certified.authority.vouch_for("copier", file="good")
    port = certified.kafka.bootstrap_servers.rpartition(":")[2]
    server, other = f"127.0.0.1:{port}", f"localhost:{port}"
    for cluster, expected in (
        (certified.cluster(ours, trusted=certified.stranger.pem), f"{server} is not trusted: .*set ssl.truststore.loc"),
        (
            certified.cluster(ours, servers=other),
            f"{other} is not trusted: Hostname mismatch, .*; let bootstrap.servers and the broker's advertised",
        ),
        (certified.cluster(None), f"{server} .*client certificate.*ssl.keystore.location"),
        (
            certified.cluster(certified.stranger.vouch_for("copier", file="unknown")),
            f"{server} refuses the client certificate.*ssl.keystore.location",
        ),
        (
            certified.cluster(certified.authority.vouch_for("copier", ends=-DAY, file="ended")),
            f"{server} refuses the client certificate.*ssl.keystore.location",
        ),
    ):
        found = sentence_of(cluster, expected)
        assert re.search(rf"^cluster 'a' \(.*\) is not reachable: .*{expected}", found), found


def test_a_certificate_that_only_openssl_reads_stops_no_report(
    certified: Certified, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known is told: of the others, and that this one may end earlier."""
    cluster = certified.cluster(certified.authority.vouch_for("copier", ends=10 * DAY, file="beside"))
    certified.show(certified.authority.vouch_for("127.0.0.1", file="odd", printable=True))
    try:
        with caplog.at_level(logging.WARNING):
            end = certificate_end(cluster)
        assert end is not None
        assert (end.holder, end.complete) == ("the client certificate (CN=copier) for the brokers", False)
        server = certified.kafka.bootstrap_servers
        assert f"certificates of broker {server} of cluster 'a' cannot be read: " in caplog.text
    finally:
        certified.show(certified.first)


def test_a_certificate_that_has_ended_says_so_until_it_is_renewed(certified: Certified) -> None:
    cluster = certified.cluster(certified.authority.vouch_for("copier", file="fine"))
    server = certified.kafka.bootstrap_servers
    certified.show(certified.authority.vouch_for("127.0.0.1", ends=-DAY, file="broker-ended"))
    try:
        expected = f"the certificate of {server} is not trusted: certificate has expired; renew it on the broker"
        assert expected in sentence_of(cluster, expected)
        assert certificate_end(cluster) is None
    finally:
        certified.show(certified.authority.vouch_for("127.0.0.1", ends=5 * DAY, file="broker-renewed"))
    end = certificate_end(cluster)
    assert end is not None
    assert 4.9 < days_left(end.ends_ms) < 5
