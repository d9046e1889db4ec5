"""What kafka-python is given, against a real TLS server and a real token endpoint on loopback."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from srm_common.domain.cluster import ClusterSettings, OauthClient, PemTexts
from srm_common.domain.settings.layers import Entry
from srm_common.errors import AccessDenied, ConfigError, UnreachableCluster
from srm_common.kafka.client.library import KafkaConnectionManager, KafkaSSLTransport, NetworkSelector
from srm_common.kafka.client.librdkafka import silent_logger
from srm_common.kafka.client.security import ClientCredentials, connection_arguments, tls_context
from srm_common.settings_files.client_keys import cluster_settings
from tests.token_endpoint import TokenEndpoint, serving


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, and its encrypted key, in one file each."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-passout", "pass:hush"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


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
    context = connection_arguments(cluster)["ssl_context"]
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


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem", "hush")
    return context


@pytest.fixture
def token_endpoint() -> Iterator[TokenEndpoint]:
    with serving() as endpoint:
        yield endpoint


def test_tokens_are_fetched_once_and_kept(token_endpoint: TokenEndpoint) -> None:
    client = OauthClient(token_endpoint.url, "me", "hush", "kafka", (("cluster", "x"),))
    cluster = ClusterSettings("a", "h:1", {}, {"sasl_oauth_token_provider": client})
    provider = connection_arguments(cluster)["sasl_oauth_token_provider"]
    assert (provider.token(), provider.token()) == ("t1", "t1")
    assert token_endpoint.asked == [("me:hush", "grant_type=client_credentials&scope=kafka")]
    assert provider.extensions() == {"cluster": "x"}


def test_a_token_endpoint_that_fails_is_asked_again(token_endpoint: TokenEndpoint) -> None:
    token_endpoint.failures = [503, 404, 500]
    assert ClientCredentials(OauthClient(token_endpoint.url, "me", "hush")).token(300) == "t4"


def test_a_token_endpoint_that_goes_on_failing_is_one_sentence(token_endpoint: TokenEndpoint) -> None:
    token_endpoint.failures = [503] * 100
    with pytest.raises(UnreachableCluster, match=r"/token gave no token: status 503$"):
        ClientCredentials(OauthClient(token_endpoint.url, "me", "hush")).token(0.5)
    assert len(token_endpoint.asked) > 1


def test_a_token_is_used_to_its_end_when_there_is_no_new_one(token_endpoint: TokenEndpoint) -> None:
    provider = ClientCredentials(OauthClient(token_endpoint.url, "me", "hush"))
    assert provider.token() == "t1"
    provider._renew_at = 0.0
    token_endpoint.failures = [503]
    assert (provider.token(), provider.token()) == ("t1", "t3")


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refused_client_is_one_sentence_at_once(token_endpoint: TokenEndpoint, status: int) -> None:
    token_endpoint.failures = [status]
    provider = ClientCredentials(OauthClient(token_endpoint.url, "me", "wrong"))
    with pytest.raises(AccessDenied, match=rf"/token gave no token: status {status}; check the client's id"):
        provider.token(300)
    assert len(token_endpoint.asked) == 1


def test_the_token_endpoint_is_trusted_by_an_authority_of_its_own(certificate: Path) -> None:
    ca = certificate / "cert.pem"
    with serving(tls=server_context(certificate)) as endpoint:
        for trusted in (
            OauthClient(endpoint.url, "me", "hush", certificate_authority_file=str(ca)),
            OauthClient(endpoint.url, "me", "hush", certificate_authority=ca.read_text()),
        ):
            assert ClientCredentials(trusted).token(300)
        with pytest.raises(UnreachableCluster, match="CERTIFICATE_VERIFY_FAILED"):
            ClientCredentials(OauthClient(endpoint.url, "me", "hush")).token(0.5)
    with pytest.raises(ConfigError, match=r"the certificates for .* cannot be used"):
        ClientCredentials(OauthClient(endpoint.url, "me", "hush", certificate_authority="nonsense")).token()


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
            context = KafkaSSLTransport._build_ssl_context({**KafkaSSLTransport.DEFAULT_CONFIG, **options})
            assert context.check_hostname == ("ssl.endpoint.identification.algorithm" not in settings)
