"""Numbers that are bounds, estimates or unknown, and what their sums may say."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.amount import Amount, moment

NUMBERS = st.integers(0, 1000)


@st.composite
def seen(draw: st.DrawFn) -> tuple[Amount, int]:
    """What is known of a number, and the number."""
    low, high, unknown = draw(NUMBERS), draw(NUMBERS), draw(st.booleans())
    low, high = sorted((low, high))
    known = Amount(low, high, 1)
    number = draw(st.integers(low, high))
    return (known.and_more(), number + draw(NUMBERS)) if unknown else (known, number)


@given(st.lists(seen()))
def test_a_sum_says_nothing_that_is_not_so(parts: list[tuple[Amount, int]]) -> None:
    total, truth = Amount.sum(known for known, _ in parts), sum(number for _, number in parts)
    assert total.least <= truth
    assert total.most is None or truth <= total.most
    assert total.parts == len(parts)
    # Without an upper limit exactly where a part has none.
    assert (total.most is None) == any(known.most is None for known, _ in parts)
    assert ("unknown" in str(total) or "at least" in str(total)) == (total.most is None)
    # A bare number is exact.
    assert re.fullmatch(r"\d+", str(total)) is None or str(total) == str(truth)


@given(st.lists(seen(), min_size=3, max_size=3))
def test_parts_may_be_summed_in_any_order(parts: list[tuple[Amount, int]]) -> None:
    one, two, three = (known for known, _ in parts)
    assert one + two == two + one
    assert (one + two) + three == one + (two + three) == Amount.sum((one, two, three))
    assert one + Amount() == one


@given(seen())
def test_written_and_read(part: tuple[Amount, int]) -> None:
    known = part[0]
    assert Amount.from_json(json.loads(json.dumps(known.to_json()))) == known


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Amount(), "0"),
        (Amount.exactly(0), "0"),
        (Amount.at_most(0), "0"),
        (Amount.exactly(7), "7"),
        (Amount.at_most(7), "at most 7"),
        (Amount.at_least(7), "at least 7"),
        (Amount.not_known(), "unknown"),
        (Amount.of(None), "unknown"),
        (Amount.exactly(3) + Amount.at_most(4), "3 to 7"),
        (Amount.at_most(240).and_more(), "unknown, besides at most 240"),
        (Amount.exactly(240) + Amount.not_known(), "at least 240, unknown in 1 of 2 partitions"),
        (Amount.exactly(0) + Amount.not_known(), "unknown in 1 of 2 partitions, besides 0"),
        (Amount.not_known() + Amount.not_known(), "unknown in all 2 partitions"),
        (Amount.at_most(9) + Amount.not_known(), "unknown in 1 of 2 partitions, besides at most 9"),
        (Amount(2, 5, 2) + Amount.not_known(), "at least 2, unknown in 1 of 3 partitions, besides 2 to 5"),
    ],
)
def test_in_words(amount: Amount, text: str) -> None:
    assert amount.text("partition") == text


@pytest.mark.parametrize("found", [None, 7, "7", {}, {"least": 3, "known_most": 2, "parts": 1, "unknown": 0}])
def test_what_is_no_amount_is_refused(found: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Amount.from_json(found)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1_769_860_800_000, "2026-01-31 12:00:00 UTC"),
        (-1, "1969-12-31 23:59:59 UTC"),
        (1_769_860_800_000_000_000, "1769860800000000000 ms"),  # of a producer that writes nanoseconds
        (2**63 - 1, "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms"),
    ],
)
def test_a_moment_may_be_any_number(milliseconds: int, text: str) -> None:
    assert moment(milliseconds) == text
