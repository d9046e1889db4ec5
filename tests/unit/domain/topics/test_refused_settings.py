from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.topics.refused_settings import conceded

MAP = {
    "segment.bytes": "16777216",
    "segment.ms": "3600000",
    "delete.retention.ms": "3600000",
    "max.message.bytes": "1048588",
}


def test_less_is_asked_of_what_a_refusal_names() -> None:
    asked = conceded(MAP, "Config property 'segment.bytes' with value '16777216' is lower than ... of 52428800.")
    assert asked == {**MAP, "segment.bytes": "52428800"}
    asked = conceded(asked, "segment.ms: too low.")
    assert asked == {**MAP, "segment.bytes": "52428800", "segment.ms": "14400000"}
    # What managed clusters take is asked for once.
    asked = conceded(asked, "no segment.ms. And no delete.retention.ms")
    assert asked == {"segment.bytes": "52428800", "max.message.bytes": "1048588"}


@pytest.mark.parametrize("refusal", ["bad delete.retention.ms.policy", "my.retention.ms", "segment.bytess", "no"])
def test_the_name_of_another_setting_is_none_of_ours(refusal: str) -> None:
    assert conceded({"retention.ms": "1", "delete.retention.ms": "2", "segment.bytes": "1"}, refusal) == {
        "retention.ms": "1",
        "delete.retention.ms": "2",
        "segment.bytes": "52428800",
    }


def test_a_refusal_without_names_costs_speed_first_and_the_size_of_records_last() -> None:
    wishes = {"max.message.bytes": "16777216", "segment.bytes": "1048576", "delete.retention.ms": "3600000"}
    first = conceded(wishes, "Request parameters do not satisfy the configured policy.")
    assert first == {**wishes, "max.message.bytes": "8388608", "segment.bytes": "52428800"}
    second = conceded(first, "no")
    assert second == {"max.message.bytes": "8388608"}
    assert conceded(second, "no") == {}
    assert conceded({"max.message.bytes": "1048588"}, "no") == {}


keys = ["segment.bytes", "segment.ms", "max.compaction.lag.ms", "max.message.bytes", "retention.ms"]


@given(st.dictionaries(st.sampled_from(keys), st.integers(1, 1 << 40).map(str)), st.lists(st.sampled_from(["", *keys])))
def test_in_the_end_nothing_is_asked_for(wishes: dict[str, str], refusals: list[str]) -> None:
    seen = [wishes]
    for refusal in [*refusals, *[""] * 20]:
        if not seen[-1]:
            break
        seen.append(conceded(seen[-1], refusal))
        assert seen[-1].keys() <= wishes.keys()
    assert seen[-1] == {}
    assert all(before != after for before, after in pairwise(seen))
    assert len(seen) <= 2 * len(keys) + 2
