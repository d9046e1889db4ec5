"""The connection settings of one alias, and the TLS settings among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.cluster import JavaStore, PemTexts
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError

_JAVA_STORES = ("JKS", "PKCS12")
#: Of Java, the type of most times in Kafka's clients.
LARGEST_LONG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection settings of one alias: what was written, with references already replaced.

    ``read`` are the keys that were used: the others have no effect.
    """

    alias: str
    written: Mapping[str, Entry]
    values: Mapping[str, str]
    read: set[str] = field(default_factory=set)

    def get(self, key: str) -> str | None:
        return self.text(key, "").strip() or None

    def text(self, key: str, default: str) -> str:
        self.read.add(key)
        return self.values.get(key, default)

    def number(self, key: str, most: int = LARGEST_LONG) -> int | None:
        """A whole number of milliseconds. Raises :class:`ConfigError`."""
        value = self.get(key)
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal()):
            raise self.fault(key, f"must be a whole number of milliseconds, but is '{value}'")
        if len(value) > len(str(LARGEST_LONG)) or int(value) > most:
            raise self.fault(key, f"must be at most {most} milliseconds")
        return int(value)

    def fault(self, key: str, reason: str) -> ConfigError:
        entry = self.written.get(key)
        if entry is None:
            any_entry = next(iter(self.written.values()), None)
            return ConfigError(f"cluster {self.alias}: {reason}", file=any_entry.file if any_entry else None)
        return ConfigError(f"{entry.written}: {reason}", file=entry.file, line=entry.line or None)


def _store(client: Connection, which: str, pem_key: str) -> tuple[str | None, JavaStore | None]:
    """Path of a PEM store, or Java's; other types are refused."""
    location = client.get(f"ssl.{which}.location")
    if location is None:
        return None, None
    kind = (client.get(f"ssl.{which}.type") or ("PEM" if location.endswith((".pem", ".crt")) else "JKS")).upper()
    password = client.get(f"ssl.{which}.password")
    if kind in _JAVA_STORES:
        return None, JavaStore(location, password, client.get("ssl.key.password") if which == "keystore" else None)
    if kind != "PEM":
        raise client.fault(
            f"ssl.{which}.type",
            f"a {kind} {which} can be read only by Java; convert it (keytool -importkeystore ... -deststoretype "
            f"PKCS12), and set ssl.{which}.type=PKCS12; or write {pem_key}",
        )
    if password is not None:
        own = " (that of the private key is ssl.key.password)" if which == "keystore" else ""
        raise client.fault(f"ssl.{which}.password", f"a PEM {which} has no password{own}; remove this setting")
    return location, None


def tls_settings(
    client: Connection, confluent: dict[str, str], kafka_python: dict[str, Any]
) -> tuple[JavaStore | None, JavaStore | None]:
    """Fills in both libraries' settings; Java's truststore and keystore are left to be read."""
    truststore = keystore = None
    authority = client.get("ssl.truststore.certificates")
    authority_file = client.get("ssl.ca.location")
    if authority_file is None and authority is None:
        authority_file, truststore = _store(client, "truststore", "ssl.truststore.certificates")
    own_file = client.get("ssl.certificate.location")
    key_file = client.get("ssl.key.location")
    chain, key = client.get("ssl.keystore.certificate.chain"), client.get("ssl.keystore.key")
    if own_file is None and chain is None:
        own_file, keystore = _store(client, "keystore", "ssl.keystore.certificate.chain and ssl.keystore.key")
        key_file = own_file
    if (chain is None) != (key is None):
        present = "ssl.keystore.key" if chain is None else "ssl.keystore.certificate.chain"
        raise client.fault(present, "ssl.keystore.key and ssl.keystore.certificate.chain go together")
    password = client.get("ssl.key.password") if keystore is None else None
    # Java's default is https; an empty value switches the check of the broker's name off.
    algorithm = client.text("ssl.endpoint.identification.algorithm", "https").strip().lower()
    check = algorithm not in ("", "none")
    ciphers = client.get("ssl.cipher.suites")
    if ciphers:
        ciphers = ":".join(part.strip() for part in ciphers.split(","))
    revoked = client.get("ssl.crl.location")

    confluent["ssl.endpoint.identification.algorithm"] = "https" if check else "none"
    for name, value in (
        ("ssl.ca.location", authority_file if authority is None else None),
        ("ssl.ca.pem", authority),
        ("ssl.certificate.location", own_file if chain is None else None),
        ("ssl.key.location", (key_file or own_file) if chain is None else None),
        ("ssl.certificate.pem", chain),
        ("ssl.key.pem", key),
        ("ssl.key.password", password),
        ("ssl.cipher.suites", ciphers),
        ("ssl.crl.location", revoked),
    ):
        if value is not None:
            confluent[name] = value
    if authority or chain or ciphers or truststore or keystore:
        kafka_python["ssl_context"] = PemTexts(
            certificate_authority=authority,
            certificate_authority_file=authority_file if authority is None else None,
            chain=chain,
            key=key,
            chain_file=own_file if chain is None else None,
            key_file=key_file if chain is None else None,
            key_password=password,
            check_hostname=check,
            ciphers=ciphers,
            revoked_file=revoked,
        )
        return truststore, keystore
    kafka_python["ssl_check_hostname"] = check
    for name, value in (
        ("ssl_cafile", authority_file),
        ("ssl_certfile", own_file),
        ("ssl_keyfile", key_file),
        ("ssl_password", password),
        ("ssl_crlfile", revoked),
    ):
        if value is not None:
            kafka_python[name] = value
    return truststore, keystore
