from __future__ import annotations

import pytest

from srm_common.domain.patterns.name_filter import NameFilter, PatternList
from srm_common.domain.schemas.id_mapping import IdMapping
from srm_common.domain.schemas.schemas import SubjectNaming, is_of_topic
from srm_common.domain.transforms.formats import Side


def test_a_topic_is_named_by_any_expression_but_the_one_for_all() -> None:
    naming = SubjectNaming(NameFilter.of("schemas.subjects", [".*"], []))
    mapping = IdMapping(naming, PatternList(["orders"]), PatternList(["pay.*", ".*"]))
    assert mapping.unnamed("orders") == (Side.VALUE,)
    assert mapping.unnamed("payments") == ()
    assert mapping.sides("payments") == (Side.VALUE,)


@pytest.mark.parametrize(
    ("subject", "topic", "side", "expected"),
    [
        ("orders-value", "orders", Side.VALUE, True),
        ("orders-key", "orders", Side.VALUE, False),
        ("orders-key", "orders", Side.KEY, True),
        (":.team:orders-value", "orders", Side.VALUE, True),
        ("orders-com.example.Order", "orders", Side.VALUE, True),
        ("orders-eu-value", "orders", Side.VALUE, False),
        ("orders-value", "east.orders", Side.VALUE, True),
        ("eu-orders-value", "east_eu-orders", Side.VALUE, True),
        ("orders-value", "reorders", Side.VALUE, False),
        ("com.example.Order", "orders", Side.VALUE, False),
        ("-value", "orders-", Side.VALUE, True),
        ("-x", "orders-", Side.VALUE, False),
    ],
)
def test_the_subjects_of_a_topic(subject: str, topic: str, side: Side, expected: bool) -> None:
    assert is_of_topic(subject, topic, side) is expected
