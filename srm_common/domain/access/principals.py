"""Which principal a cluster sees in our login, as far as the settings tell."""

from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings

ANONYMOUS = "User:ANONYMOUS"
_BY_USER_NAME = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def login_principal(cluster: ClusterSettings) -> str | None:
    """``User:<name>`` of the login, as Kafka's default principal builder makes it.

    None where only the broker knows: it takes the principal from a certificate or a token.
    """
    settings = cluster.confluent
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms", "")
        name = settings.get("sasl.username")
        return f"User:{name}" if name and mechanism.upper() in _BY_USER_NAME else None
    if protocol == "SSL" and any(key.startswith(("ssl.certificate", "ssl.key")) for key in settings):
        return None
    return ANONYMOUS


def login_name(cluster: ClusterSettings) -> str:
    """The login for a sentence: its principal, or what there is to say instead."""
    return login_principal(cluster) or "the principal of the login"
