"""A certificate authority of a test's own."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFE = datetime.timedelta(days=40)
#: RFC 5758, section 3.2: the algorithm as a certificate has it.
_ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")


class Authority:
    """``pem`` is what those need who trust it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            self._certificate(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def vouch_for(
        self, host: str, *, ends: datetime.timedelta = _LIFE, file: str | None = None, printable: bool = False
    ) -> Path:
        """A PEM file with a certificate of ``host`` that ends so far from now, and its key.

        Args:
            file: its name, by default that of the host.
            printable: the subject is a PrintableString with signs that it must not have, as some tools make them.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        text = f"{host}_@" if printable else host
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
        certificate = (
            self._certificate(name, key.public_key(), ends)
            .add_extension(x509.SubjectAlternativeName([_named(host)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        made = self._folder / f"{file or host}.pem"
        shown = certificate.public_bytes(serialization.Encoding.DER)
        if printable:
            shown = self._as_printable(certificate, text)
        made.write_bytes(secret + ssl.DER_cert_to_PEM_cert(shown).encode())
        return made

    def _as_printable(self, certificate: x509.Certificate, text: str) -> bytes:
        """The certificate with ``text`` as a PrintableString in its subject, signed again; no library makes them."""
        utf8, printable = (bytes([tag, len(text)]) + text.encode() for tag in (0x0C, 0x13))
        about = certificate.tbs_certificate_bytes.replace(utf8, printable)
        signature = b"\0" + self._key.sign(about, ec.ECDSA(hashes.SHA256()))
        body = about + _ECDSA_WITH_SHA256 + bytes([0x03, len(signature)]) + signature
        return b"\x30\x82" + len(body).to_bytes(2, "big") + body

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime.timedelta = _LIFE
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LIFE)
            .not_valid_after(now + ends)
        )


def _named(host: str) -> x509.GeneralName:
    """``host`` is a name or an address."""
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    return x509.DNSName(host)
