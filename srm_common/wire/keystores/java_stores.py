"""Java's key stores, JKS and PKCS12, as PEM texts, and the keys in such texts; nothing is written to disk.

JKS is the format of ``sun.security.provider.JavaKeyStore``, and its keys are hidden as
``sun.security.provider.KeyProtector`` does. Java takes either for the other, by what the file begins with, and so does
this.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_PRIVATE_KEY, _TRUSTED = 1, 2
_DIGEST = hashlib.sha1(b"").digest_size
_WHITENER = b"Mighty Aphrodite"
#: DER: a sequence, and the octets of Sun's EncryptedPrivateKeyInfo.
_SEQUENCE, _OCTETS = 0x30, 0x04


@dataclass(frozen=True)
class JavaStoreTexts:
    """What a store holds, as PEM: every certificate that it trusts, and a key with its chain where there is one."""

    trusted: str = ""
    chain: str | None = None
    key: str | None = field(default=None, repr=False)


def read_java_store(data: bytes, password: str | None, key_password: str | None = None) -> JavaStoreTexts:
    """The content of a store.

    Args:
        key_password: of the key, where it has another one than the store.

    Raises:
        ValueError: it is no such store, it is damaged, or a password is wrong. The text names no password.
    """
    if data.startswith(_JKS):
        try:
            return _Jks(data, password).texts(key_password or password)
        except (x509.InvalidVersion, UnsupportedAlgorithm, TypeError) as error:
            raise ValueError("a certificate or key in it cannot be read") from error
    if data.startswith(_JCEKS):
        raise ValueError("it is a JCEKS store; convert it with keytool -importkeystore -deststoretype PKCS12")
    try:
        certificates = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        raise ValueError("it is not a JKS or PKCS12 store, or its password is wrong") from None
    others = [cert.certificate for cert in certificates.additional_certs]
    if certificates.key is None:
        own = [certificates.cert.certificate] if certificates.cert is not None else []
        return JavaStoreTexts(_pem([*own, *others]))
    key = certificates.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    if certificates.cert is None:
        raise ValueError("its key has no certificate")
    return JavaStoreTexts(_pem(others), _pem(_chain(certificates.cert.certificate, others)), key)


def with_password(key: str, password: str | None, new: str) -> str:
    """A private key as PEM under a ``new`` password; one that it does not need does no harm, as in OpenSSL.

    Raises:
        ValueError: it cannot be read. The text names no password.
    """
    try:
        found = load_pem_private_key(key.encode(), password.encode() if password else None)
    except TypeError as error:
        if password is None:
            raise ValueError("the key has a password; set ssl.key.password") from error
        found = load_pem_private_key(key.encode(), None)
    return found.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(new.encode())).decode()


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _chain(own: x509.Certificate, others: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate, then each issuer of the one before."""
    by_subject = {other.subject: other for other in others}
    chain = [own]
    while chain[-1].issuer != chain[-1].subject and (above := by_subject.pop(chain[-1].issuer, None)) is not None:
        chain.append(above)
    return chain


class _Jks:
    """One JKS store, read from its beginning to its end."""

    def __init__(self, data: bytes, password: str | None) -> None:
        self._data = data[:-_DIGEST]
        self._at = len(_JKS)
        if password is not None:  # Java, too, compares only where it has one
            digest = hashlib.sha1(_utf16(password) + _WHITENER + self._data).digest()
            if not hmac.compare_digest(digest, data[-_DIGEST:]):
                raise ValueError("it is damaged, or its password is wrong")

    def texts(self, key_password: str | None) -> JavaStoreTexts:
        version = self._number(4)
        if version not in (1, 2):
            raise ValueError(f"it is a JKS store of the unknown version {version}")
        trusted: list[x509.Certificate] = []
        chain: list[x509.Certificate] = []
        key = None
        for _ in range(self._number(4)):
            kind = self._number(4)
            self._take(self._number(2))  # alias
            self._take(8)  # date
            if kind == _TRUSTED:
                trusted.append(self._certificate(version))
            elif kind == _PRIVATE_KEY:
                hidden = self._take(self._number(4))
                certificates = [self._certificate(version) for _ in range(self._number(4))]
                if key is None:
                    key, chain = _unhidden(hidden, key_password), certificates
            else:
                raise ValueError("it is damaged")
        return JavaStoreTexts(_pem(trusted), None if key is None else _pem(chain), key)

    def _certificate(self, version: int) -> x509.Certificate:
        if version == 2:
            self._take(self._number(2))  # X.509
        return x509.load_der_x509_certificate(self._take(self._number(4)))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("it is damaged")
        self._at += size
        return taken


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _unhidden(hidden: bytes, password: str | None) -> str:
    """A private key as PEM. Its bytes are combined with a chain of digests that begins with the password and a salt."""
    if password is None:
        raise ValueError("its key has a password, and none is given")
    content = _der(_der(hidden, _SEQUENCE)[0], _OCTETS, skip=1)[0]
    salt, body, digest = content[:_DIGEST], content[_DIGEST:-_DIGEST], content[-_DIGEST:]
    secret, block, stream = _utf16(password), salt, b""
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    plain = bytes(one ^ other for one, other in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), digest):
        raise ValueError("the password of its key is wrong")
    key = load_der_private_key(plain, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _der(data: bytes, tag: int, skip: int = 0) -> tuple[bytes, bytes]:
    """The content of the element after ``skip`` others, and what follows it."""
    if len(data) < 2:
        raise ValueError("its key is damaged")
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    content, rest = data[start : start + length], data[start + length :]
    if skip:
        return _der(rest, tag, skip - 1)
    if data[0] != tag or len(content) < length:
        raise ValueError("its key is damaged")
    return content, rest
