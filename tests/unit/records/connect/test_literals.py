"""Literals of headers; tests/kafka/connect compares thousands with Kafka's own class."""

from __future__ import annotations

import pytest

from srm_common.domain.transforms.formats import HeaderConverter
from srm_common.records.connect.transforms.header_values import literal_bytes


@pytest.mark.parametrize(
    ("literal", "simple", "text"),
    [
        ("east", b"east", b"east"),
        ("", b"", b""),
        ("null", None, None),
        ("007", b"7", b"7"),
        ("1.50", b"1.5", b"1.5"),
        ("12345678901234567890123", b"12345678901234567890123", b"12345678901234567890123"),
        ("1e99999999999", b"1e99999999999", b"1e99999999999"),
        ('"x"', b'"x"', b'"x"'),
        ("12:30", b"12", b"12"),
        ("2024-02-29", b"2024-02-29", b"Thu Feb 29 00:00:00 UTC 2024"),
        ('{"a": 1, 2.5: [ null ]}', b'{"a":1,2.5:[null]}', b"{a=1, 2.5=[null]}"),
        ("{true: 1, 1: 2}", b"{true:1,1:2}", b"{true=1, 1=2}"),
        ("[1, 2.5, 3]", b"[1.0,2.5,3.0]", b"[1.0, 2.5, 3.0]"),
        ("[1, null]", b"[1, null]", b"[1, null]"),
        ("[" * 5000, b"[" * 5000, b"[" * 5000),
    ],
)
def test_what_becomes_of_a_literal(literal: str, simple: bytes | None, text: bytes | None) -> None:
    assert literal_bytes(literal, HeaderConverter.SIMPLE) == simple
    assert literal_bytes(literal, HeaderConverter.STRING) == text
