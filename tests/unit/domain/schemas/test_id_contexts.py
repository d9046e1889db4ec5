"""To which context the ids of a topic belong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.schemas.id_contexts import Claim, claim, contenders, is_certain
from srm_common.domain.schemas.schemas import copy_context, qualified
from srm_common.domain.transforms.formats import Side

CONTEXTS = ("", "east", "west", "b.east")
NAMES = ("orders-value", "orders-com.acme.Order", "orders-key", "east.orders-value", "com.acme.Order")
HELD = st.dictionaries(st.sampled_from(CONTEXTS), st.sets(st.sampled_from(NAMES), min_size=1))


@pytest.mark.parametrize(
    ("subject", "topic", "expected"),
    [
        ("orders-value", "orders", Claim.OWN),
        (":.east:orders-com.acme.Order", "orders", Claim.OWN),
        (":.east:orders-value", "east.orders", Claim.COPY),
        (":.b.east:orders-value", "b.east.orders", Claim.COPY),
        (":.west:orders-value", "east.orders", Claim.ORIGINAL),
        ("orders-value", "east.orders", Claim.ORIGINAL),
        (":.east:orders-key", "east.orders", Claim.OTHER),
        (":.east:com.acme.Order", "east.orders", Claim.OTHER),
    ],
)
def test_why_an_id_may_be_one_of_a_topic(subject: str, topic: str, expected: Claim) -> None:
    assert claim(subject, topic, Side.VALUE) is expected


@pytest.mark.parametrize(
    ("topic", "held", "expected"),
    [
        ("orders", {"": ["orders-value"], "east": ["orders-value"]}, [""]),
        ("orders", {"": ["totals-value"], "east": ["orders-value"]}, ["east"]),
        ("orders", {"east": ["orders-value"], "west": ["orders-value"]}, ["east", "west"]),
        # A topic orders-archive has such subjects, too.
        ("orders", {"": ["com.acme.Order"], "east": ["orders-archive-com.acme.Line"]}, ["", "east"]),
        ("orders", {"": ["com.acme.Order"], "east": ["orders-com.acme.Order"]}, ["east"]),
        ("orders-archive", {"": ["com.acme.Order"], "east": ["orders-archive-com.acme.Line"]}, ["east"]),
        ("orders", {"": ["totals-value"]}, [""]),
        ("orders", {"": ["totals-value"], "east": ["com.acme.Order"]}, ["", "east"]),
        ("orders", {"east": ["com.acme.Order"]}, []),
        ("east.orders", {"": ["orders-value"], "east": ["orders-value"]}, ["east"]),
        ("east.orders", {"": ["orders-value"], "west": ["com.acme.Order"]}, [""]),
        ("east.orders", {"": ["orders-value"], "west": ["orders-value"]}, ["", "west"]),
        ("my-orders", {"west": ["orders-value"]}, []),
        ("orders", {}, []),
    ],
)
def test_the_contexts_that_an_id_may_belong_to(topic: str, held: dict[str, list[str]], expected: list[str]) -> None:
    assert contenders(_qualified(held), topic, Side.VALUE) == expected


@given(HELD, st.sampled_from(["orders", "east.orders", "b.east.orders", "totals"]), st.sampled_from(Side))
def test_no_context_wins_over_one_with_a_better_claim(held: dict[str, set[str]], topic: str, side: Side) -> None:
    subjects = _qualified(held)
    found = contenders(subjects, topic, side)
    claims = {context: min(claim(one, topic, side) for one in names) for context, names in subjects.items()}
    assert found == sorted(set(found))
    assert set(found) <= set(held)
    for context, reason in claims.items():
        if context not in found and found:
            assert reason >= max(claims[one] for one in found)
        # Nothing but the topic's own subject ties it to a context that nobody has named.
        if context in found and context and reason > Claim.COPY:
            assert "" in found
    if is_certain(subjects.get("", ()), topic, side):
        assert found == [""]
    # More contexts never make another one the only choice without a reason of their own.
    if found == [""] and len(held) > 1:
        assert contenders({"": subjects[""]}, topic, side) == [""]


@given(st.sampled_from(CONTEXTS), st.sampled_from(CONTEXTS), st.sampled_from([None, *CONTEXTS]))
def test_contexts_stay_apart_in_copies(to: str, context: str, named: str | None) -> None:
    copied = copy_context(to, context, named)
    assert copied == to if context == named else copied.endswith(context)
    others = {copy_context(to, one, None) for one in CONTEXTS}
    assert len(others) == len(CONTEXTS)


def _qualified(held: dict[str, list[str]] | dict[str, set[str]]) -> dict[str, list[str]]:
    return {context: [qualified(context, name) for name in names] for context, names in held.items()}
