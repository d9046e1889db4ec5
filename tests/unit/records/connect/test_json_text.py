"""Numbers in JSON that Python's own decoder would not survive."""

from __future__ import annotations

from decimal import Decimal

import pytest

from srm_common.records.connect.data.java_values import DataFault, Float32, to_float
from srm_common.records.connect.json import text as json_text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1" * 5000, "a number has more than 1000 digits"),
        ("00" + "1" * 5000, "a number has more than 1000 digits"),
        ("1." + "1" * 1000, "a number has more than 1000 digits"),
        ("1e99999999999999999999", "an exponent of more than 32 bits"),
        ("-0.1e-3000000000", "an exponent of more than 32 bits"),
        ("1e" + "9" * 5000, "1000 digits"),
    ],
)
def test_numbers_that_are_refused(text: str, reason: str) -> None:
    for data in (text, f'{{"a": [{text}]}}'):
        with pytest.raises(DataFault, match=reason):
            json_text.read(data.encode())


def test_a_decimal_far_below_the_smallest_float_is_zero() -> None:
    assert json_text.read(b"1e-999999999") == Decimal("1e-999999999")
    assert repr(to_float(Decimal("-1e-999999999"))) == repr(Float32(-0.0))
