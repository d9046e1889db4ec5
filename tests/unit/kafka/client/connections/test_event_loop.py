"""The event loop on real sockets: what is registered, who is woken, and what stays asleep."""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.future import Future

from srm_common.kafka.client.connections.event_loop import EventLoop, interrupt
from srm_common.kafka.client.connections.threads import in_thread


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with left, right:
        yield left, right


class CountingSelector(selectors.DefaultSelector):
    """Counts what the kernel is told."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def register(self, *args: Any) -> selectors.SelectorKey:
        self.calls.append("register")
        return super().register(*args)

    def modify(self, *args: Any) -> selectors.SelectorKey:
        self.calls.append("modify")
        return super().modify(*args)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        self.calls.append("unregister")
        return super().unregister(fileobj)


def test_a_socket_is_registered_once_for_many_waits(loop: EventLoop, pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    told = CountingSelector()
    loop._selector.unregister(loop._wakeup_r)
    loop._selector.close()
    loop._selector = told
    told.register(loop._wakeup_r, selectors.EVENT_READ, (None, None))
    told.calls.clear()

    async def work() -> None:
        for _ in range(50):
            right.send(b"x")
            await loop.wait_read(left)
            assert left.recv(10) == b"x"

    loop.run(work)
    assert told.calls == ["register"]
    loop.forget(left)
    assert told.calls == ["register", "unregister"]


def test_bytes_that_no_task_waits_for_do_not_keep_the_loop_awake(
    loop: EventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    turns = 0
    poll = loop._selector.select

    def counted(timeout: float | None = None) -> object:
        nonlocal turns
        turns += 1
        return poll(timeout)

    loop._selector.select = counted

    async def work() -> None:
        right.send(b"one")
        await loop.wait_read(left)
        await loop.sleep(0.3)  # "one" is still there, and the other side hangs up meanwhile
        right.close()
        await loop.sleep(0.3)
        await loop.wait_read(left)
        assert left.recv(10) == b"one"
        await loop.wait_read(left)
        assert left.recv(10) == b""

    loop.run(work)
    assert turns < 30  # thousands, if each turn found the socket readable


def test_reading_and_writing_are_waited_for_side_by_side(
    loop: EventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    sent = got = 0
    size = 4 << 20

    async def write() -> None:
        nonlocal sent
        while sent < size:
            await loop.wait_write(left)
            sent += left.send(bytes(min(size - sent, 1 << 16)))

    async def read_back() -> None:
        nonlocal got
        while got < size:
            await loop.wait_read(right)
            got += len(data := right.recv(1 << 16))
            if got == len(data):
                right.send(b"seen")

    async def read() -> bytes:
        await loop.wait_read(left)
        return left.recv(10)

    async def work() -> bytes:
        tasks = [loop.call_soon_with_future(one) for one in (write, read_back)]
        answer = await read()
        for task in tasks:
            await task
        return answer

    assert loop.run(work) == b"seen"
    assert (sent, got) == (size, size)


def test_a_wait_ends_at_its_time_limit_and_the_next_one_works(
    loop: EventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair

    async def work() -> bytes:
        with pytest.raises(KafkaTimeoutError):
            await loop.wait_read(left, 0.0)
        right.send(b"x")
        await loop.wait_read(left)
        return left.recv(10)

    assert loop.run(work) == b"x"


def test_a_task_that_was_thrown_out_of_its_wait_is_not_woken_by_it(
    loop: EventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    woken: list[str] = []

    async def reader() -> None:
        try:
            await loop.wait_read(left)
        except ValueError:
            woken.append("thrown")
        await loop.park([])
        woken.append("too early")

    async def work() -> bytes:
        task = loop.call_soon(reader)
        await loop.sleep(0.01)
        loop.throw(task, ValueError())
        right.send(b"x")
        await loop.sleep(0.05)
        await loop.wait_read(left)
        return left.recv(10)

    assert loop.run(work) == b"x"
    assert woken == ["thrown"]


def test_another_task_may_wait_when_the_one_before_was_cancelled(
    loop: EventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair

    async def reader() -> None:
        await loop.wait_read(left)
        raise AssertionError("it was cancelled")

    async def work() -> bytes:
        task = loop.call_soon(reader)
        await loop.sleep(0.01)
        loop.cancel(task)
        right.send(b"x")
        await loop.sleep(0.01)
        await loop.wait_read(left)
        return left.recv(10)

    assert loop.run(work) == b"x"


def test_a_number_that_is_used_again_is_another_socket(loop: EventLoop) -> None:
    async def work() -> None:
        for _ in range(20):
            left, right = socket.socketpair()
            left.setblocking(False)
            right.send(b"x")
            await loop.wait_read(left)
            left.close()  # without a word
            right.close()

    loop.run(work)


def test_a_blocking_call_leaves_the_loop_running(loop: EventLoop) -> None:
    release = threading.Event()

    async def work() -> tuple[int, int]:
        turns = 0

        async def beside() -> None:
            nonlocal turns
            while turns < 3:
                turns += 1
                await loop.sleep(0)
            release.set()

        loop.call_soon(beside)
        return await in_thread(loop, lambda: 7 if release.wait(300) else 0), turns

    assert loop.run(work) == (7, 3)


def test_the_error_of_a_blocking_call_is_raised(loop: EventLoop) -> None:
    def fail() -> None:
        raise OSError("no such name")

    with pytest.raises(OSError, match="no such name"):
        loop.run(lambda: in_thread(loop, fail))


def test_a_blocking_call_that_outlives_the_loop_is_forgotten() -> None:
    loop, release = EventLoop(), threading.Event()
    before = set(threading.enumerate())
    loop.call_soon(in_thread(loop, lambda: release.wait(300)))
    loop.run(lambda: loop.sleep(0))
    loop.close()
    release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(300)
        assert not thread.is_alive()


def test_what_was_put_off_is_done_before_the_loop_waits(loop: EventLoop) -> None:
    done: list[str] = []

    def put_off() -> None:
        done.append("put off")
        loop.call_soon(lambda: done.append("made ready by it"))

    async def work() -> None:
        loop.before_wait(put_off)
        done.append("turn")
        await loop.sleep(0.05)

    loop.run(work)
    assert done == ["turn", "put off", "made ready by it"]


def test_sockets_are_looked_at_though_tasks_are_always_ready(
    loop: EventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    read: list[bytes] = []

    async def reader() -> None:
        await loop.wait_read(ours)
        read.append(ours.recv(1))

    async def never_idle() -> None:
        loop.call_soon(reader)
        theirs.send(b"x")
        for _ in range(100):
            future = Future()
            loop.call_soon(lambda ready=future: ready.success(None))
            await future

    loop.run(never_idle)
    loop.forget(ours)
    assert read == [b"x"]


@pytest.fixture
def handler() -> Iterator[None]:
    """SIGALRM asks for the end of what its thread is doing."""
    before = signal.signal(signal.SIGALRM, lambda *_: interrupt())
    yield
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_within_any_task_ends_what_the_loop_runs(loop: EventLoop, handler: None) -> None:
    went_on: list[str] = []

    async def innocent() -> None:
        signal.raise_signal(signal.SIGALRM)
        went_on.append("to its end")

    async def work() -> None:
        loop.call_soon(innocent)
        await loop.sleep(60)
        went_on.append("uninterrupted")

    with pytest.raises(KeyboardInterrupt):
        loop.run(work)
    assert went_on == ["to its end"]
    # Once asked, once raised.
    assert loop.run(lambda: "more") == "more"


def test_an_interrupt_wakes_a_loop_that_waits_and_is_plain_where_none_runs(loop: EventLoop, handler: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        loop.run(loop.sleep, 600)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGALRM)


def test_what_a_task_begins_while_its_loop_is_closed_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    loop = EventLoop()
    begun: list[str] = []

    async def refresh() -> None:
        begun.append("refresh")
        await loop.call_soon_with_future(lambda: begun.append("request"))

    loop.call_soon(refresh)
    with caplog.at_level(logging.INFO):
        loop.close()
    assert begun == ["refresh"]
    assert not caplog.records
