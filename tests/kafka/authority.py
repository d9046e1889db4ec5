"""A certificate authority of a test's own."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFE = datetime.timedelta(days=40)


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

    def vouch_for(self, host: str, *, ends: datetime.timedelta = _LIFE, file: str | None = None) -> Path:
        """A PEM file with a certificate of ``host`` that ends so far from now, and its key.

        Args:
            file: its name, by default that of the host.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = (
            self._certificate(name, key.public_key(), ends)
            .add_extension(x509.SubjectAlternativeName([_named(host)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        made = self._folder / f"{file or host}.pem"
        made.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
        return made

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
