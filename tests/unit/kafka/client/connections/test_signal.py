"""Waking a coroutine of the event loop."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.signal import Signal


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


def seconds_of(loop: EventLoop, work: object) -> float:
    began = time.monotonic()
    loop.run(work)
    return time.monotonic() - began


def test_waiting_ends_when_it_is_set(loop: EventLoop) -> None:
    signal = Signal(loop)

    async def work() -> None:
        loop.call_later(0.05, signal.set)
        await signal.wait(600)

    assert 0.04 < seconds_of(loop, work) < 300


def test_waiting_ends_without_it_after_the_given_time(loop: EventLoop) -> None:
    signal = Signal(loop)

    async def work() -> None:
        await signal.wait(0.05)

    assert seconds_of(loop, work) > 0.04


def test_a_wake_up_while_nobody_waits_is_kept_once(loop: EventLoop) -> None:
    signal = Signal(loop)

    async def work() -> None:
        signal.set()
        signal.set()
        await signal.wait()  # returns at once
        began = time.monotonic()
        await signal.wait(0.05)
        assert time.monotonic() - began > 0.04

    loop.run(work)


def test_a_wake_up_that_came_leaves_no_timer_behind(loop: EventLoop) -> None:
    signal = Signal(loop)

    async def work() -> None:
        loop.call_later(0.01, signal.set)
        await signal.wait(0.1)
        began = time.monotonic()
        await signal.wait(0.3)  # the first wait's timer must not end this one
        assert time.monotonic() - began > 0.25

    loop.run(work)


def test_a_time_in_the_past_is_no_wait(loop: EventLoop) -> None:
    signal = Signal(loop)

    async def work() -> None:
        await signal.wait(-600)

    assert seconds_of(loop, work) < 300


def test_silence_begins_when_nothing_more_is_heard(loop: EventLoop) -> None:
    signal, heard = Signal(loop), iter([1, 2, 3, 4, 5, 6, 6, 7])
    loop.run(lambda: signal.silence(0.001, lambda: next(heard)))
    assert next(heard) == 7


def test_what_is_heard_is_waited_for_until_it_is_set(loop: EventLoop) -> None:
    signal, heard = Signal(loop), iter(range(10**9))

    def hear() -> int:
        latest = next(heard)
        if latest == 9:
            signal.set()
        return latest

    loop.run(lambda: signal.silence(0.001, hear))
    assert next(heard) > 9
