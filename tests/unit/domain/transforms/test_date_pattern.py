from __future__ import annotations

import pytest

from srm_common.domain.transforms.date_pattern import DatePattern


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("S", "99999999999", 1_215_752_191),
        ("S", "-99999999999", -1_215_752_191),
        ("S", "9" * 5000, 2**31 - 1),
        ("S", "-" + "9" * 30, -(2**31)),
        ("HH", str(2**63 - 1), -3_600_000),
        ("HH", str(2**63), (2**31 - 1) * 3_600_000),
        ("dd", "2147483647", 185_542_587_014_400_000),
        ("yyyy", "0" * 5000 + "2024", 1_704_067_200_000),
        ("yyyy-MM-dd", "2024-99999999999-01", 3_197_121_162_537_600_000),
    ],
)
def test_numbers_of_any_length_are_what_java_makes_of_them(pattern: str, text: str, millis: int) -> None:
    # As SimpleDateFormat of Java 17 parses them, lenient, in UTC.
    assert DatePattern(pattern).parse(text) == millis
