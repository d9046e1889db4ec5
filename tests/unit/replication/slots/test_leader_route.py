from __future__ import annotations

import pytest

from srm_common.replication.slots.leader_route import LeaderRoute


def _window_after(answers: int, seconds: float, throttle_seconds: float = 0.0) -> float:
    route, now = LeaderRoute(), 0.0
    for _ in range(answers):
        size = int(route.window)
        route.sent(size, now)
        route.answered(size, now, now + seconds, throttle_seconds)
        route.requests -= 1
        route.bytes -= size
        now += seconds + throttle_seconds
    return route.window


def test_quick_answers_let_the_window_grow_and_slow_ones_make_it_smaller() -> None:
    first = LeaderRoute().window
    assert _window_after(3, 0.01) == 8 * first
    assert _window_after(3, 2.0) == first
    assert _window_after(3, 4.0) < first / 2


@pytest.mark.parametrize("seconds", [0.01, 0.9])
def test_an_answer_that_comes_at_once_is_slow_if_the_broker_takes_nothing_further_for_long(seconds: float) -> None:
    assert _window_after(3, seconds, throttle_seconds=5.0) < LeaderRoute().window / 2
    assert _window_after(3, seconds, throttle_seconds=1.5) == LeaderRoute().window
