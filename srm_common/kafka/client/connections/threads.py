"""Blocking calls beside an event loop, and reports to a loop from other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from srm_common.kafka.client.library import Errors, Future, NetworkSelector

T = TypeVar("T")


async def in_thread(loop: NetworkSelector, work: Callable[[], T], timeout_at: float | None = None) -> T:
    """The result of a call that may block, made in a thread of its own while the loop continues.

    The thread is a daemon: whoever stops waiting leaves it to its own time limit, and the process may end without it.

    Raises:
        KafkaTimeoutError: nothing came before ``timeout_at`` (monotonic seconds).
        Exception: what the call raised.
    """
    future = Future()

    def finish(end: Callable[[Any], object], result: Any) -> None:
        if not future.is_done:
            end(result)

    def call() -> None:
        try:
            value = work()
        except BaseException as error:  # passed to the waiting task
            tell(loop, partial(finish, future.failure, error))
        else:
            tell(loop, partial(finish, future.success, value))

    threading.Thread(target=call, name="srm-call", daemon=True).start()
    if timeout_at is None:
        return await future  # type: ignore[no-any-return]
    timer = loop.call_at(
        timeout_at, lambda: finish(future.failure, Errors.KafkaTimeoutError("the call takes too long"))
    )
    try:
        return await future  # type: ignore[no-any-return]
    finally:
        loop.cancel(timer)


def tell(loop: NetworkSelector, report: Callable[[], object]) -> None:
    """Have a loop call ``report``, from another thread; nothing happens where it is closed."""
    try:
        loop.call_soon_threadsafe(lambda: report())
    except RuntimeError:
        if not loop._closed:
            raise
