"""Runs between a source with mutual TLS and a target with TLS and logins, with every kind of store and mechanism."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.client.links.certificates import certificate_end
from srm_common.testing import BrokerJvm, LocalKafka
from tests.kafka.access.secured import (
    Secured,
    assert_equal,
    flow_of,
    let_in,
    scram_listener,
    scram_login,
    tls_listener,
    topic_of,
)
from tests.kafka.authority import Authority
from tests.kafka.records import plain, produce
from tests.kafka.topic_pairs import run

_STORES, _LOGIN = "store-hush", "login-hush"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class Sides:
    source: LocalKafka
    target: LocalKafka
    folder: Path

    def stores(self, kind: str, *, own: bool) -> dict[str, str]:
        """What a properties file says of the trusted authority, and of our certificate."""
        ends = {"JKS": "jks", "PKCS12": "p12", "PEM": "pem"}[kind]
        found = {"ssl.truststore.location": str(self.folder / f"authority.{ends}"), "ssl.truststore.type": kind}
        if own:
            found |= {"ssl.keystore.location": str(self.folder / f"copier.{ends}"), "ssl.keystore.type": kind}
        if kind != "PEM":
            found |= {key.replace("location", "password"): _STORES for key in list(found) if key.endswith("location")}
        return found


def _keytool(*words: str) -> None:
    subprocess.run(["keytool", *words, "-noprompt"], check=True, capture_output=True, timeout=120)


def _make_stores(folder: Path) -> Authority:
    """The authority and a certificate of ``copier``, as PEM, PKCS12 and JKS."""
    authority = Authority(folder, "authority")
    authority.vouch_for("copier")
    new = ("-storepass", _STORES)
    for ends, kind in (("jks", "JKS"), ("p12", "PKCS12")):
        trust = ("-keystore", str(folder / f"authority.{ends}"), "-storetype", kind)
        _keytool("-importcert", "-alias", "ca", "-file", str(authority.pem), *trust, *new)
    own = str(folder / "copier.p12")
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", str(folder / "copier.pem"), "-out", own, "-passout", f"pass:{_STORES}"],
        check=True,
        capture_output=True,
    )
    _keytool(
        *("-importkeystore", "-srckeystore", own, "-srcstoretype", "PKCS12", "-srcstorepass", _STORES),
        *("-destkeystore", str(folder / "copier.jks"), "-deststoretype", "JKS", "-deststorepass", _STORES),
    )
    return authority


@pytest.fixture(scope="module")
def sides(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("mixed")
    authority = _make_stores(folder)
    tls = tls_listener(authority.vouch_for("127.0.0.1"))
    mutual = {
        "listener.name.client.ssl.truststore.type": "PEM",
        "listener.name.client.ssl.truststore.location": str(authority.pem),
        "listener.name.client.ssl.client.auth": "required",
    }
    logins = {
        **scram_listener("SCRAM-SHA-256"),
        **scram_listener("SCRAM-SHA-512"),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.client.plain.sasl.jaas.config": f'{_PLAIN} required user_copier="{_LOGIN}";',
    }
    with (
        LocalKafka(name="source", client_protocol="SSL", settings=tls | mutual, jvm=broker_jvm) as source,
        LocalKafka(name="target", client_protocol="SASL_SSL", settings=tls | logins, jvm=broker_jvm) as target,
    ):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            let_in(target, "copier", _LOGIN, mechanism)
        yield Sides(source, target, folder)


def login(mechanism: str) -> dict[str, str]:
    if mechanism != "PLAIN":
        return scram_login("copier", _LOGIN, mechanism, tls=True)
    module = f'{_PLAIN} required username="copier" password="{_LOGIN}";'
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": module}


@pytest.mark.parametrize(
    ("own", "trusted", "mechanism"),
    [("JKS", "PKCS12", "PLAIN"), ("PKCS12", "PEM", "SCRAM-SHA-256"), ("PEM", "JKS", "SCRAM-SHA-512")],
)
def test_a_run_with_another_kind_of_security_on_each_side(
    sides: Sides, own: str, trusted: str, mechanism: str, name: str
) -> None:
    source = Secured(sides.source, {"security.protocol": "SSL", **sides.stores(own, own=True)})
    target = Secured(sides.target, {**login(mechanism), **sides.stores(trusted, own=False)})
    flow = flow_of(source, target, name)
    copy = topic_of(source, flow, name, 2)
    for _ in range(2):
        for partition in range(2):
            produce(sides.source, name, partition, plain(500))
        record = run(flow)
        assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(source, name, target, copy) == 2000
    assert _STORES not in repr(flow)
    assert _LOGIN not in repr(flow)
    # Whatever they come in, certificates are found: of the broker, or our own.
    for cluster in (flow.source, flow.target):
        end = certificate_end(cluster)
        assert end is not None
        assert end.ends_ms is not None
