from __future__ import annotations

import pytest

from srm_common.domain.topics.replication import Brokers


@pytest.mark.parametrize(
    ("brokers", "factor", "attempts", "said"),
    [
        (Brokers(3), 3, (3,), ""),
        (Brokers(3), -1, (-1,), ""),
        # All of them can be seen, or those that cannot hold nothing yet.
        (Brokers(1), 3, (3, 2, 1), "; 3 replicas requested, but the target has 1 broker"),
        (Brokers(1), 30, (30, 3, 2, 1), "; 30 replicas requested, but the target has 1 broker"),
        # Others hold replicas of topics.
        (Brokers(2, (3,)), 2, (2,), ""),
        (Brokers(2, (3,)), 3, (3,), "; broker 3 does not respond"),
        (
            Brokers(1, (2, 3)),
            4,
            (4, 3),
            "; 4 replicas requested, but the target has 3 brokers; brokers 2, 3 do not respond",
        ),
    ],
)
def test_no_fewer_replicas_than_brokers(brokers: Brokers, factor: int, attempts: tuple[int, ...], said: str) -> None:
    assert brokers.attempts(factor) == attempts
    assert brokers.affordable(factor) == attempts[-1]
    assert brokers.shortage(factor) == said


def test_brokers_that_hold_replicas_and_do_not_respond_are_missing() -> None:
    assert Brokers.of([1, 2], [2, 3, 1, 5]) == Brokers(2, (3, 5))
    assert Brokers.of([1, 2], []) == Brokers(2)
