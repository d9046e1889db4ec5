"""Certificates that OpenSSL takes and a stricter reader does not."""

from __future__ import annotations

import ssl

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from srm_common.wire.keystores.certificates import UNREADABLE, Certificate, java_name, java_subject, of_der, of_pem
from tests.fuzz.text_targets import a_certificate

#: 2040-01-01.
ENDS_MS = 2_208_988_800_000
#: The name "ca" as a UTF8String.
_NAME = b"\x0c\x02ca"


def test_whose_it_is_and_when_it_ends() -> None:
    encoded = a_certificate()
    assert of_der([encoded, encoded]) == [Certificate("CN=ca", ENDS_MS)] * 2
    assert of_pem(f"a key\n{ssl.DER_cert_to_PEM_cert(encoded)}") == [Certificate("CN=ca", ENDS_MS)]
    assert of_pem("a key") == []


@pytest.mark.parametrize(
    "name",
    [b"\x0c\x02\xff\xfe", b"\x16\x02\xffa", b"\x14\x02\xe9a", b"\x03\x02ca"],
    ids=["UTF8String", "IA5String", "T61String", "BIT STRING"],
)
def test_the_end_is_known_where_the_subject_cannot_be_read(name: bytes) -> None:
    assert of_der([a_certificate().replace(_NAME, name)]) == [Certificate(UNREADABLE, ENDS_MS)]


def test_what_is_no_certificate_is_one_error() -> None:
    of_version_2 = a_certificate().replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x01")
    with_an_at = a_certificate().replace(_NAME, b"\x13\x02@b")
    for encoded in (b"", b"\x30\x00", a_certificate()[:-1], of_version_2, with_an_at):
        with pytest.raises(ValueError, match=r"pars|short|valid|load"):
            of_der([encoded])
        with pytest.raises(ValueError, match=r"pars|short|valid|load"):
            of_pem(ssl.DER_cert_to_PEM_cert(encoded))


def _encoded(*parts: dict[x509.ObjectIdentifier, str]) -> bytes:
    names = [
        x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for kind, value in part.items()])
        for part in parts
    ]
    return x509.Name(names).public_bytes()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            _encoded({NameOID.COUNTRY_NAME: "DE"}, {NameOID.ORGANIZATION_NAME: "A, B"}, {NameOID.COMMON_NAME: "srm"}),
            r"CN=srm,O=A\, B,C=DE",
        ),
        (
            _encoded({NameOID.EMAIL_ADDRESS: "a@b.c"}, {NameOID.COMMON_NAME: " sr\u00e4 \r"}),
            "CN=\\ sr\u00e4\\ \\\r,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (_encoded({NameOID.ORGANIZATION_NAME: '+=#;"\\<>'}), r"O=\+\=\#\;\"\\\<\>"),
        (_encoded({NameOID.COMMON_NAME: "c", NameOID.USER_ID: "u"}), "CN=c+UID=u"),
        (_encoded(), ""),
    ],
)
def test_a_name_as_java_writes_it(name: bytes, text: str) -> None:
    assert java_name(name) == text


def test_whose_a_certificate_is_as_java_writes_it() -> None:
    pem = ssl.DER_cert_to_PEM_cert(a_certificate())
    assert java_subject(f"a key\n{pem}{pem}") == "CN=ca"
    assert java_subject("a key") is None
    # Java takes what a stricter reader does not.
    assert java_subject(ssl.DER_cert_to_PEM_cert(a_certificate().replace(_NAME, b"\x13\x02@b"))) == "CN=@b"
    for encoded in (b"", b"\x30\x00", b"\x30\x02\x30\x00", a_certificate()[:-1]):
        with pytest.raises(ValueError, match=r"cut off|not enough"):
            java_subject(ssl.DER_cert_to_PEM_cert(encoded))
