"""Certificates and keys on machines that lack their files, against a real TLS server on loopback."""

from __future__ import annotations

import datetime
import pickle
import ssl
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from srm_common.domain.cluster import ClusterSettings, OauthClient
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError
from srm_common.kafka.client.logins.security import TlsContexts, connection_arguments, registry_tls
from srm_common.kafka.client.logins.shipped_files import with_files
from srm_common.settings_files.connections.client_keys import cluster_settings
from tests.unit.kafka.client.logins.test_security import handshake


def settings_of(**written: object) -> ClusterSettings:
    entries = {
        key: Entry(f"a.{key}", str(value), "f", 1)
        for key, value in {"bootstrap.servers": "h:1", "security.protocol": "SSL", **written}.items()
    }
    return cluster_settings("a", entries, lambda entry: entry.value)


def on_a_worker(cluster: ClusterSettings, folder: Path) -> ClusterSettings:
    """The settings after their way to a machine without the folder."""
    sent = pickle.dumps(with_files(cluster))
    folder.rename(folder.with_name(f"{folder.name}-elsewhere"))
    return pickle.loads(sent)  # type: ignore[no-any-return]


@pytest.fixture
def files(certificate: Path, tmp_path: Path) -> Path:
    """What the driver has: certificate and key, in two files, in one, and as Java's stores."""
    folder = tmp_path / "driver"
    folder.mkdir()
    cert, key = (certificate / "cert.pem").read_bytes(), (certificate / "key.pem").read_bytes()
    (folder / "cert.pem").write_bytes("# Főtanúsítvány\n".encode() + cert)
    (folder / "key.pem").write_bytes(key)
    (folder / "both.pem").write_bytes(cert + key)
    subprocess.run(
        [
            *("openssl", "pkcs12", "-export", "-in", str(certificate / "cert.pem"), "-passout", "pass:stored"),
            *("-inkey", str(certificate / "key.pem"), "-passin", "pass:hush", "-out", str(folder / "own.p12")),
        ],
        check=True,
        capture_output=True,
    )
    return folder


def pem(folder: Path) -> dict[str, object]:
    both = folder / "both.pem"
    return {
        "ssl.truststore.location": folder / "cert.pem",
        "ssl.keystore.location": both,
        "ssl.key.password": "hush",
    }


def two_files(folder: Path) -> dict[str, object]:
    return {
        "ssl.ca.location": folder / "cert.pem",
        "ssl.certificate.location": folder / "cert.pem",
        "ssl.key.location": folder / "key.pem",
        "ssl.key.password": "hush",
    }


def java(folder: Path) -> dict[str, object]:
    return {
        "ssl.ca.location": folder / "cert.pem",
        "ssl.keystore.location": folder / "own.p12",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "stored",
    }


@pytest.mark.parametrize("written", [pem, two_files, java])
def test_workers_without_the_files_log_in_with_the_drivers(
    certificate: Path, files: Path, written: Callable[[Path], Mapping[str, object]]
) -> None:
    keys = written(files)
    for_registry = {f"schema.registry.{key}": value for key, value in keys.items()}
    cluster = settings_of(**keys, **for_registry, **{"schema.registry.url": "https://h:2"})
    there = on_a_worker(cluster, files)
    contexts = connection_arguments(there)["ssl_context"]
    assert isinstance(contexts, TlsContexts)
    for context in (contexts.current(), registry_tls(there)):
        assert handshake(context, certificate, "localhost")
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(context, certificate, "elsewhere")
    assert "PRIVATE" not in repr(there)
    with pytest.raises(ConfigError, match=str(files)):
        registry_tls(cluster)


def test_a_file_that_is_there_counts(certificate: Path, files: Path) -> None:
    """It may be changed while a run goes on."""
    there = on_a_worker(settings_of(**pem(files)), files)
    files.mkdir()
    for name in ("cert.pem", "both.pem"):
        (files / name).write_text("of this machine")
    with pytest.raises(ConfigError, match="the certificates of cluster 'a' cannot be used"):
        connection_arguments(there)


@pytest.mark.parametrize("there_too", ["cert.pem", "key.pem"])
def test_a_certificate_and_its_key_come_from_the_same_machine(certificate: Path, files: Path, there_too: str) -> None:
    there = on_a_worker(settings_of(**two_files(files)), files)
    files.mkdir()
    (files / there_too).write_text("of another certificate")
    if there_too == "cert.pem":
        # It is also that of the authority, which has no key.
        (files / there_too).write_bytes((certificate / "cert.pem").read_bytes())
    contexts = connection_arguments(there)["ssl_context"]
    assert isinstance(contexts, TlsContexts)
    assert handshake(contexts.current(), certificate, "localhost")


def test_a_revoked_certificate_is_refused_there_too(certificate: Path, files: Path) -> None:
    revoked = files / "revoked.pem"
    _revoke(files, revoked)
    there = on_a_worker(settings_of(**pem(files), **{"ssl.crl.location": revoked}), files)
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(connection_arguments(there)["ssl_context"].current(), certificate, "localhost")


def _revoke(folder: Path, revoked: Path) -> None:
    """A list on which the certificate itself is."""
    own = x509.load_pem_x509_certificate((folder / "both.pem").read_bytes())
    key = load_pem_private_key((folder / "key.pem").read_bytes(), b"hush")
    assert isinstance(key, RSAPrivateKey)
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    entry = x509.RevokedCertificateBuilder().serial_number(own.serial_number).revocation_date(now).build()
    crl = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(own.subject)
        .last_update(now)
        .next_update(now + datetime.timedelta(days=9))
        .add_revoked_certificate(entry)
        .sign(key, hashes.SHA256())
    )
    revoked.write_bytes(crl.public_bytes(Encoding.PEM))


def test_whom_to_trust_at_the_endpoint_of_tokens_goes_along(files: Path) -> None:
    client = OauthClient("https://h/token", "me", "secret", certificate_authority_file=str(files / "cert.pem"))
    login = {"security_protocol": "SASL_SSL", "sasl_oauth_token_provider": client}
    there = on_a_worker(ClusterSettings("a", "h:1", {}, login), files).kafka_python["sasl_oauth_token_provider"]
    assert there.certificate_authority_file is None
    assert there.certificate_authority.startswith("# Ftanstvny\n-----BEGIN CERTIFICATE-----")


def test_a_file_that_nobody_has_is_named(tmp_path: Path) -> None:
    cluster = settings_of(**{"ssl.truststore.location": tmp_path / "trust.jks"})
    with pytest.raises(ConfigError, match=r"trust\.jks of cluster 'a' cannot be read: No such file"):
        connection_arguments(with_files(cluster))
