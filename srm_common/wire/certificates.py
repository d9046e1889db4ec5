"""X.509 certificates, as a TLS handshake or a PEM file has them: whose they are, and when they end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cryptography import x509

#: In place of a subject whose text is not of the type that it says; OpenSSL, and so the connection, takes it.
UNREADABLE = "its subject cannot be read"


class Certificate(NamedTuple):
    """``subject`` as RFC 4514 writes it, or :data:`UNREADABLE`; ``ends_ms`` is ``notAfter`` in epoch milliseconds."""

    subject: str
    ends_ms: int


def of_der(encoded: Iterable[bytes]) -> list[Certificate]:
    """Certificates of a handshake. Raises ValueError, also for some that OpenSSL takes, such as those with a @ in a
    PrintableString."""
    try:
        return [_read(x509.load_der_x509_certificate(one)) for one in encoded]
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error


def of_pem(text: str) -> list[Certificate]:
    """All certificates in a text, keys aside; none where it has none. Raises ValueError."""
    if "-----BEGIN CERTIFICATE-----" not in text:
        return []
    try:
        return [_read(one) for one in x509.load_pem_x509_certificates(text.encode())]
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error


def _read(found: x509.Certificate) -> Certificate:
    try:
        subject = found.subject.rfc4514_string()
    except (ValueError, TypeError):
        subject = UNREADABLE
    return Certificate(subject, int(found.not_valid_after_utc.timestamp() * 1000))
