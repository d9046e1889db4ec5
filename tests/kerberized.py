"""Clusters with Kerberos alone, and the logins to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from tests.kdc import REALM, LocalKdc

HOST = "127.0.0.1"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
#: How long a broker believes a login; afterwards it must be done again over the same connection (KIP-368).
REAUTHENTICATION_MS = 3_000
#: May do everything.
MIGHTY = ("copier", "reader", "brief", "leaver")


@contextmanager
def asked(folder: Path) -> Iterator[LocalKdc]:
    """A KDC that this process, and those that it starts, ask for tickets."""
    with LocalKdc(folder) as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        # Whoever runs the tests may have tickets.
        patch.setenv("KRB5CCNAME", f"FILE:{kdc.folder}/nothing-here")
        yield kdc


def broker(
    kdc: LocalKdc,
    name: str,
    service: str,
    certificate: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> LocalKafka:
    """A cluster whose clients log in by Kerberos alone; with TLS where it has a certificate."""
    keytab = kdc.keytab(f"{service}/{HOST}")
    jaas = f'{_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{service}/{HOST}@{REALM}";'
    tls = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(certificate),
    }
    return LocalKafka(
        name=name,
        client_protocol="SASL_PLAINTEXT" if certificate is None else "SASL_SSL",
        java_options=[kdc.java_option],
        settings={
            "listener.name.client.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.client.sasl.kerberos.service.name": service,
            "listener.name.client.gssapi.sasl.jaas.config": jaas,
            "listener.name.client.connections.max.reauth.ms": str(REAUTHENTICATION_MS),
            "authorizer.class.name": _AUTHORIZER,
            # Principals without realm, by the DEFAULT rule; kafka/127.0.0.1 of the open listener is ANONYMOUS.
            "super.users": ";".join(f"User:{name}" for name in ("ANONYMOUS", *MIGHTY)),
            **({} if certificate is None else tls),
            **(settings or {}),
        },
    )


@contextmanager
def running(*kafkas: LocalKafka) -> Iterator[None]:
    """Starts clusters side by side, and closes them."""
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(LocalKafka.start, kafkas))
        yield
    finally:
        for kafka in kafkas:
            kafka.close()


@contextmanager
def brokers(kdc: LocalKdc) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """A source and a target whose services have different names."""
    source, target = broker(kdc, "source", "kafka"), broker(kdc, "target", "otherkafka")
    with running(source, target):
        yield source, target


def by_keytab(principal: str, keytab: Path) -> dict[str, str]:
    """What a properties file of MirrorMaker 2 or of SRM has."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{principal}@{REALM}";',
    }


def by_ticket_cache(cache: Path, service: str, authority: Path | None = None) -> dict[str, str]:
    """With TLS where a certificate authority is named."""
    tls = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return {
        "security.protocol": "SASL_PLAINTEXT" if authority is None else "SASL_SSL",
        **({} if authority is None else tls),
        # Java's default mechanism is GSSAPI.
        "sasl.jaas.config": f'{_MODULE} required useTicketCache=true ticketCache="{cache}" serviceName="{service}";',
    }
