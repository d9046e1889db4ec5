"""The certificate that brokers show in workloads with TLS."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """``own`` has the certificate of 127.0.0.1 and its key, ``trusted`` the certificate alone; both are PEM files."""

    own: Path
    trusted: Path

    @property
    def broker_settings(self) -> dict[str, str]:
        """Of the listener for clients."""
        return {
            "listener.name.client.ssl.keystore.type": "PEM",
            "listener.name.client.ssl.keystore.location": str(self.own),
        }

    @property
    def client_properties(self) -> dict[str, str]:
        """What a properties file says, the same for both sides of the comparison."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }


def make_certificate(folder: Path) -> Certificate:
    """Self-signed, for a day, with the key that most brokers have: RSA of 2048 bits."""
    folder.mkdir(parents=True, exist_ok=True)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(folder / "broker.pem", folder / "trusted.pem")
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    text = made.public_bytes(serialization.Encoding.PEM)
    certificate.own.write_bytes(secret + text)
    certificate.trusted.write_bytes(text)
    return certificate
