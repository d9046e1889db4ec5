from __future__ import annotations

from srm_common.domain.flow.installation import Installation, other_installation

HOUR = 3_600_000
LAST = Installation("one", "host-1", "r1", 10 * HOUR)


def test_another_installation_is_told() -> None:
    own = Installation("two", "host-2", "r2", 10 * HOUR + 90_000)
    found = other_installation("a->b", LAST, own)
    assert found is not None
    assert found.startswith("installation 'one' ran flow a->b 90 s ago (run 'r1' on host-1), this is 'two'")


def test_the_same_one_a_first_run_and_one_long_ago_are_not() -> None:
    assert other_installation("a->b", LAST, Installation("one", "host-2", "r2", 10 * HOUR)) is None
    assert other_installation("a->b", None, LAST) is None
    assert other_installation("a->b", LAST, Installation("two", "host-2", "r2", 35 * HOUR)) is None


def test_there_and_back_through_json() -> None:
    assert Installation.from_json(LAST.to_json()) == LAST
    assert Installation.from_json(None) is None
    assert Installation.from_json({"id": "x"}) is None
