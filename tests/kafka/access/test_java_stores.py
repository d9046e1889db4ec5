"""Stores that Java's keytool has made, as a broker and a Java client have them: both libraries log in with them."""

from __future__ import annotations

import pickle
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import login_principal
from srm_common.domain.settings.layers import Entry
from srm_common.errors import AccessDenied, ConfigError
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.logins.security import connection_arguments
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.logins import broker_settings
from srm_common.wire.keystores.certificates import java_name
from srm_common.wire.keystores.java_stores import read_java_store
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.acl_commands import grant
from tests.kafka.authority import Authority
from tests.kafka.records import eventually

pytestmark = pytest.mark.kafka

_PASSWORD, _KEY_PASSWORD = "store-hush", "key-hush"
_KINDS = ("JKS", "PKCS12")
#: With signs that are escaped, and an attribute that Java has no name for.
_SUBJECT = r"EMAILADDRESS=copier@example.com, CN=copier, OU=copies\, all of them, O=A\=B"
_NAMES_IN_JAVA = Path(__file__).parents[1] / "java" / "X500Names.java"


def keytool(*words: str) -> None:
    subprocess.run(["keytool", *words], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``trust-<kind>`` and ``own-<kind>``, and the authority's and the broker's PEM files."""
    folder = tmp_path_factory.mktemp("stores")
    authority = Authority(folder, "authority")
    authority.vouch_for("127.0.0.1")
    password = ("-storepass", _PASSWORD)
    for kind in _KINDS:
        own, trust = str(folder / f"own-{kind}"), str(folder / f"trust-{kind}")
        made = ("-keystore", own, "-storetype", kind, *password)
        other = ("-keypass", _KEY_PASSWORD) if kind == "JKS" else ()  # PKCS12 has one password
        keytool("-genkeypair", "-alias", "me", "-keyalg", "RSA", "-dname", _SUBJECT, "-validity", "2", *made, *other)
        keytool("-exportcert", "-rfc", "-alias", "me", "-file", str(folder / f"own-{kind}.pem"), *made)
        for alias in ("one", "two"):
            keytool(
                *("-importcert", "-noprompt", "-alias", alias, "-file", str(authority.pem)),
                *("-keystore", trust, "-storetype", kind, *password),
            )
    known = "".join((folder / f"own-{kind}.pem").read_text() for kind in _KINDS)
    (folder / "clients.pem").write_text(known)
    return folder


@pytest.fixture(scope="module")
def kafka(broker_jvm: BrokerJvm, stores: Path) -> Iterator[LocalKafka]:
    settings = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(stores / "127.0.0.1.pem"),
        "listener.name.client.ssl.truststore.type": "PEM",
        "listener.name.client.ssl.truststore.location": str(stores / "clients.pem"),
        "listener.name.client.ssl.client.auth": "required",
        **broker_settings({}),
    }
    with LocalKafka(client_protocol="SSL", settings=settings, jvm=broker_jvm) as running:
        yield running


def cluster(stores: Path, kind: str, servers: str, **changes: str) -> ClusterSettings:
    written = {
        "bootstrap.servers": servers,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(stores / f"trust-{kind}"),
        "ssl.truststore.password": _PASSWORD,
        "ssl.truststore.type": kind,
        "ssl.keystore.location": str(stores / f"own-{kind}"),
        "ssl.keystore.password": _PASSWORD,
        **({"ssl.key.password": _KEY_PASSWORD} if kind == "JKS" else {}),
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    entries = {key: Entry(f"A.{key}", value, "f", 1) for key, value in written.items()}
    return cluster_settings("A", entries, lambda entry: entry.value)


@pytest.mark.parametrize("kind", _KINDS)
def test_every_client_logs_in_with_a_store_as_it_is(kafka: LocalKafka, stores: Path, kind: str) -> None:
    settings = pickle.loads(pickle.dumps(cluster(stores, kind, kafka.bootstrap_servers)))
    topic = f"stores-{kind}"
    kafka.create_topic(topic)
    assert login_principal(settings) is None  # brokers may have rules for it
    record = [NewRecord(topic, 0, b"k", b"v")]
    # One right after the other, as messages tell them: they have the name as the broker knows it.
    eventually(lambda: _written(kafka, settings, record), 120, "the broker does not see the rights")
    with ClusterLink(settings) as link:
        link.run(lambda: link.open([topic]))
        assert link.leader(topic, 0) is not None
    with StateReader(settings) as reader:
        assert reader.partitions(topic) == 1
    assert _PASSWORD not in repr(settings)
    assert _KEY_PASSWORD not in repr(settings)


def _written(kafka: LocalKafka, settings: ClusterSettings, record: list[NewRecord]) -> bool:
    try:
        return StateWriter(settings).write("write", record) == 1
    except AccessDenied as error:
        needed = re.search(r"or what ssl.principal.mapping.rules .* needs .*\(kafka-acls.sh (.*)\)$", str(error))
        if needed is None:
            raise
        grant(kafka, f"kafka-acls.sh --bootstrap-server {kafka.internal_servers} {needed[1]}")
        return False


def test_names_are_as_java_writes_them() -> None:
    chance = Random(1)
    names = [_some_name(chance) for _ in range(200)]
    words = [name.hex() for name in names]
    command = ["java", str(_NAMES_IN_JAVA), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    expected = [bytes.fromhex(line[1:]).decode() for line in done.stdout.splitlines()]
    assert [java_name(name) for name in names] == expected


def _some_name(chance: Random) -> bytes:
    """In DER: parts of one or two attributes, of every type of text and some others."""
    kinds = [value for value in vars(NameOID).values() if isinstance(value, x509.ObjectIdentifier)]
    kinds = [
        identifier
        for identifier in kinds
        if identifier not in (NameOID.COUNTRY_NAME, NameOID.JURISDICTION_COUNTRY_NAME)
    ]
    texts = [_ASN1Type.UTF8String, _ASN1Type.PrintableString, _ASN1Type.T61String, _ASN1Type.IA5String]
    texts += [_ASN1Type.BMPString, _ASN1Type.UniversalString]

    def attribute(kind: x509.ObjectIdentifier) -> x509.NameAttribute[str]:
        return x509.NameAttribute(kind, "".join(chance.choices('ab \r\0#=,+<>;"\\', k=8)), chance.choice(texts))

    parts = [chance.sample(kinds, chance.choice([1, 1, 2])) for _ in range(chance.randrange(5))]
    return x509.Name([x509.RelativeDistinguishedName(map(attribute, part)) for part in parts]).public_bytes()


@pytest.mark.parametrize("kind", _KINDS)
def test_a_store_holds_what_keytool_put_there(stores: Path, kind: str) -> None:
    trust = read_java_store((stores / f"trust-{kind}").read_bytes(), _PASSWORD)
    assert trust.trusted.count("BEGIN CERTIFICATE") == 2
    assert trust.key is None
    own = read_java_store((stores / f"own-{kind}").read_bytes(), _PASSWORD, _KEY_PASSWORD)
    exported = (stores / f"own-{kind}.pem").read_text()
    assert own.chain is not None
    assert own.chain.split() == exported.split()
    assert own.key is not None
    assert own.key not in repr(own)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ssl_keystore_password": "wrong"}, "cannot be used: it is .*its password is wrong"),
        ({"ssl_truststore_location": "/no/such/store"}, "/no/such/store of cluster 'A' cannot be read: No such file"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(stores: Path, kind: str, changes: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        connection_arguments(cluster(stores, kind, "127.0.0.1:1", **changes))
    assert "hush" not in str(caught.value)


def test_the_password_of_a_key_may_be_wrong_alone(stores: Path) -> None:
    with pytest.raises(ConfigError, match="the password of its key is wrong"):
        connection_arguments(cluster(stores, "JKS", "127.0.0.1:1", ssl_key_password="other"))


def test_a_store_of_certificates_is_no_keystore(stores: Path) -> None:
    settings = cluster(stores, "PKCS12", "127.0.0.1:1", ssl_keystore_location=str(stores / "trust-PKCS12"))
    with pytest.raises(ConfigError, match="trust-PKCS12 of cluster 'A' holds no private key"):
        connection_arguments(settings)


@pytest.mark.parametrize("cut", [4, 12, 40, 400])
def test_a_damaged_store_says_so(stores: Path, cut: int) -> None:
    data = (stores / "own-JKS").read_bytes()
    with pytest.raises(ValueError, match="it is damaged"):
        read_java_store(data[:cut], None, _KEY_PASSWORD)


def test_every_client_has_the_settings_of_its_kind(stores: Path) -> None:
    settings = cluster(stores, "JKS", "127.0.0.1:1")
    assert all(settings.of_client(client).keystore == settings.keystore for client in Client)
