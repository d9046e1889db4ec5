"""What kafka-python is given, against a real TLS server on loopback."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from srm_common.domain.cluster import ClusterSettings, PemTexts
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError
from srm_common.kafka.client.library import KafkaConnectionManager, KafkaSSLTransport, NetworkSelector
from srm_common.kafka.client.librdkafka import silent_logger
from srm_common.kafka.client.logins.security import TlsContexts, connection_arguments, tls_context
from srm_common.settings_files.connections.client_keys import cluster_settings
from tests.kafka.authority import Authority


def handshake(client: ssl.SSLContext, certificate: Path, host: str) -> dict[str, object] | None:
    """The certificate that the server of a TLS handshake with mutual login saw."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate / "cert.pem", certificate / "key.pem", "hush")
    server.load_verify_locations(certificate / "cert.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    left, right = socket.socketpair()
    seen: list[dict[str, object] | None] = []

    def serve() -> None:
        try:
            with server.wrap_socket(right, server_side=True) as wrapped:
                seen.append(wrapped.getpeercert())  # type: ignore[arg-type]
                wrapped.sendall(b"x")
        except ssl.SSLError:
            seen.append(None)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(left, server_hostname=host) as wrapped:
            wrapped.recv(1)
    finally:
        left.close()
        thread.join(180)
    return seen[0]


def test_certificates_as_text(certificate: Path) -> None:
    cert, key = (certificate / "cert.pem").read_text(), (certificate / "key.pem").read_text()
    texts = PemTexts(certificate_authority=cert, chain=cert, key=key, key_password="hush")
    cluster = ClusterSettings("a", "h:1", {}, {"security_protocol": "SSL", "ssl_context": texts})
    context = connection_arguments(cluster)["ssl_context"].current()
    assert handshake(context, certificate, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, certificate, "elsewhere")


def test_certificates_in_files_and_no_check_of_the_name(certificate: Path) -> None:
    context = tls_context(
        PemTexts(
            certificate_authority_file=str(certificate / "cert.pem"),
            chain_file=str(certificate / "cert.pem"),
            key_file=str(certificate / "key.pem"),
            key_password="hush",
            check_hostname=False,
            ciphers="ECDHE+AESGCM",
        )
    )
    assert handshake(context, certificate, "elsewhere")


def test_a_file_that_changes_counts_for_the_next_connection(
    certificate: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kubernetes changes a secret: what the link leads to is another file."""
    other = Authority(tmp_path, "other")
    trusted = tmp_path / "trusted.pem"
    trusted.symlink_to(other.pem)
    texts = PemTexts(
        certificate_authority_file=str(trusted),
        chain_file=str(certificate / "cert.pem"),
        key_file=str(certificate / "key.pem"),
        key_password="hush",
    )
    contexts = TlsContexts(ClusterSettings("a", "h:1", {}, {}), texts)
    assert contexts.current() is contexts.current()
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(contexts.current(), certificate, "localhost")
    trusted.unlink()
    trusted.symlink_to(certificate / "cert.pem")
    assert handshake(contexts.current(), certificate, "localhost")

    trusted.unlink()
    for _ in range(2):
        assert handshake(contexts.current(), certificate, "localhost")
    (said,) = [record.getMessage() for record in caplog.records]
    told = "of cluster 'a' cannot be read: No such file or directory; new connections use what was there before"
    assert said == f"{trusted} {told}"
    trusted.symlink_to(other.pem)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(contexts.current(), certificate, "localhost")


def test_a_broken_certificate_names_the_cluster_and_no_key() -> None:
    texts = PemTexts(certificate_authority="nonsense", chain="c", key="hush")
    cluster = ClusterSettings("a", "h:1", {}, {"ssl_context": texts})
    with pytest.raises(ConfigError, match="the certificates of cluster 'a' cannot be used") as caught:
        connection_arguments(cluster)
    assert "hush" not in str(caught.value)


def test_plain_settings_are_passed_on() -> None:
    cluster = ClusterSettings.plaintext("a", "h:1,i:2")
    arguments = connection_arguments(cluster)
    assert arguments == {"bootstrap_servers": ["h:1", "i:2"], "security_protocol": "PLAINTEXT"}
    assert arguments is not cluster.kafka_python


def translated(settings: dict[str, str]) -> ClusterSettings:
    written = {
        key: Entry(key, value, "f", 1) for key, value in {"bootstrap.servers": "127.0.0.1:1", **settings}.items()
    }
    return cluster_settings("a", written, lambda entry: entry.value)


def test_both_libraries_know_every_setting(certificate: Path) -> None:
    cert, key = certificate / "cert.pem", certificate / "key.pem"
    tuning = {
        "client.dns.lookup": "use_all_dns_ips",
        "reconnect.backoff.ms": "50",
        "reconnect.backoff.max.ms": "1000",
        "socket.connection.setup.timeout.ms": "1000",
        "connections.max.idle.ms": "540000",
        "metadata.max.age.ms": "300000",
    }
    files = {"ssl.ca.location": str(cert), "ssl.certificate.location": str(cert), "ssl.key.location": str(key),
             "ssl.key.password": "hush", "ssl.endpoint.identification.algorithm": ""}  # fmt: skip
    texts = {"ssl.truststore.certificates": cert.read_text(), "ssl.keystore.certificate.chain": cert.read_text(),
             "ssl.keystore.key": key.read_text(), "ssl.key.password": "hush",
             "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"}  # fmt: skip
    user = {"sasl.username": "u", "sasl.password": "hush"}
    login = "x.OAuthBearerLoginModule required clientId='i' clientSecret='hush' scope='s' extension_a='b';"
    oauth = {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/", "sasl.jaas.config": login}
    for settings in (
        tuning,
        {"security.protocol": "SSL", **files},
        {"security.protocol": "SSL", **texts},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", **user, **files},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **user},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **oauth},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            **oauth,
            "https.ca.location": str(cert),
        },
    ):
        cluster = translated(settings)
        # librdkafka refuses unknown settings and unreadable certificates when a client is made.
        AdminClient({**cluster.confluent, "log_level": 0}, logger=silent_logger)
        arguments = connection_arguments(cluster)
        assert arguments.keys() <= KafkaConnectionManager.DEFAULT_CONFIG.keys()
        manager = KafkaConnectionManager(NetworkSelector(), **arguments)
        if "SSL" in settings.get("security.protocol", ""):
            options = {name: value for name, value in manager.config.items() if name.startswith("ssl_")}
            if isinstance(options["ssl_context"], TlsContexts):
                options["ssl_context"] = options["ssl_context"].current()
            context = KafkaSSLTransport._build_ssl_context({**KafkaSSLTransport.DEFAULT_CONFIG, **options})
            assert context.check_hostname == ("ssl.endpoint.identification.algorithm" not in settings)
