"""X.509 certificates, as a TLS handshake or a PEM file has them: whose they are, and when they end."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cryptography import x509

#: The attributes that RFC 2253 has names for, which is all that Java names; it writes others as numbers.
_RFC_2253 = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
#: Types of ASN.1 whose content Java takes for text: UTF8, Printable, T61, IA5, General and BMP strings.
_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED = frozenset(',=+<>#;"\\')
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0
#: What is before the subject in a certificate, besides its version: serial number, algorithm, issuer, validity.
_BEFORE_SUBJECT = 4
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
    if _BEGIN not in text:
        return []
    try:
        return [_read(certificate) for certificate in x509.load_pem_x509_certificates(text.encode())]
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error


def java_subject(text: str) -> str | None:
    """The subject of the first certificate of a PEM text as Java writes it (``X500Principal.getName()``), from which a
    broker's ``DefaultKafkaPrincipalBuilder`` makes the principal. None where the text has no certificate.

    Raises:
        ValueError: it cannot be read.
    """
    _, begin, rest = text.partition(_BEGIN)
    body, end, _ = rest.partition(_END)
    if not begin:
        return None
    ((_, _, certificate),) = _elements(ssl.PEM_cert_to_DER_cert(begin + body + end))
    (_, _, about), *_ = _elements(certificate)
    parts = [encoded for tag, encoded, _ in _elements(about) if tag != _VERSION]
    if len(parts) <= _BEFORE_SUBJECT:
        raise ValueError("a certificate is cut off")
    return java_name(parts[_BEFORE_SUBJECT])


def java_name(name: bytes) -> str:
    """A name in DER as Java writes it, by RFC 2253 (``sun.security.x509.AVA.toRFC2253String``): the last part first,
    and what has no name there, or is no text, in hexadecimal digits."""
    ((_, _, parts),) = _elements(name)
    return ",".join(
        "+".join(_attribute(attribute) for _, _, attribute in _elements(part))
        for _, _, part in reversed(list(_elements(parts)))
    )


def _attribute(attribute: bytes) -> str:
    (_, _, kind), (tag, encoded, content) = _elements(attribute)
    name = _RFC_2253.get(kind)
    if name is None:
        return f"{_dotted(kind)}=#{encoded.hex()}"
    if tag not in _TEXTS:
        return f"{name}=#{encoded.hex()}"
    text = content.decode(errors="replace")  # whatever the type says, Java takes it for UTF-8
    begins, ends = len(text) - len(text.lstrip(" \r")), len(text.rstrip(" \r"))
    signs = (
        "\\00" if sign == "\0" else f"\\{sign}" if sign in _ESCAPED or not begins <= place < ends else sign
        for place, sign in enumerate(text)
    )
    return f"{name}={''.join(signs)}"


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, the whole element, its content) of each element of DER in ``data``. Raises ValueError."""
    at = 0
    while at < len(data):
        if len(data) - at < 2:
            raise ValueError("a certificate is cut off")
        length, start = data[at + 1], at + 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[at + 2 : start], "big")
        end = start + length
        if end > len(data):
            raise ValueError("a certificate is cut off")
        yield data[at], data[at:end], data[start:end]
        at = end


def _dotted(encoded: bytes) -> str:
    """An object identifier as numbers."""
    numbers, number = [], 0
    for byte in encoded:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _read(found: x509.Certificate) -> Certificate:
    try:
        subject = found.subject.rfc4514_string()
    except (ValueError, TypeError):
        subject = UNREADABLE
    return Certificate(subject, int(found.not_valid_after_utc.timestamp() * 1000))
