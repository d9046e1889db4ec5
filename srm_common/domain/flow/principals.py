"""Which principal a cluster sees, as far as the settings reveal it, and the message about a missing permission."""

from __future__ import annotations

import shlex
from typing import Literal, NamedTuple

from srm_common.domain.cluster import ClusterSettings

ANONYMOUS = "User:ANONYMOUS"
_BY_USER_NAME = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def login_principal(cluster: ClusterSettings) -> str | None:
    """``User:<name>`` of the login, as Kafka's default principal builder makes it.

    None where only the broker knows: it takes the principal from a token, a delegation token included, which stands for
    the user who had it made, or from a certificate, by rules of its own.
    """
    settings = cluster.confluent
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if cluster.by_token:
        return None
    if cluster.kerberos is not None:
        # The DEFAULT of sasl.kerberos.principal.to.local.rules: neither host nor realm.
        principal = cluster.kerberos.principal
        return f"User:{principal.partition('@')[0].partition('/')[0]}" if principal else None
    if protocol.startswith("SASL"):
        mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms", "")
        name = settings.get("sasl.username")
        return f"User:{name}" if name and mechanism.upper() in _BY_USER_NAME else None
    return None if _by_certificate(cluster) else ANONYMOUS


def _by_certificate(cluster: ClusterSettings) -> bool:
    """With a login by SASL, that counts; the certificate only lets the connection in."""
    protocol = cluster.confluent.get("security.protocol", "PLAINTEXT").upper()
    return protocol == "SSL" and cluster.own_certificate is not None


def _certificate_principal(cluster: ClusterSettings) -> str | None:
    """What brokers without rules of their own make of the client certificate; None where there is none to be read."""
    subject = cluster.own_certificate.subject() if cluster.own_certificate and _by_certificate(cluster) else None
    return f"User:{subject}" if subject else None


class Right(NamedTuple):
    """An operation on one resource, as ``kafka-acls.sh`` spells both; the cluster has no name."""

    operation: str
    kind: Literal["topic", "group", "transactional-id", "cluster"]
    name: str = ""

    def __str__(self) -> str:
        if self.kind == "cluster":
            return f"{self.operation} on the cluster"
        return f"{self.operation} on {self.kind.replace('-', ' ')} '{self.name}'"

    def missing(self, cluster: ClusterSettings) -> str:
        """A clause for the administrator who can grant it: principal, permission, resource, and the command."""
        who = login_principal(cluster) or _certificate_principal(cluster) or "User:..."
        resource = f"--{self.kind} {shlex.quote(self.name)}" if self.name else f"--{self.kind}"
        return (
            f"{login_name(cluster)} needs the permission {self} "
            f"(kafka-acls.sh --add --allow-principal {shlex.quote(who)} --operation {self.operation} {resource})"
        )


def login_name(cluster: ClusterSettings) -> str:
    """The login for a sentence: its principal, or what there is to say instead."""
    shown = _certificate_principal(cluster)
    if shown is not None:
        return f"{shown}, or what ssl.principal.mapping.rules of the brokers make of it,"
    return login_principal(cluster) or "the principal of the login"
