"""What a slot leaves in the event loop of its worker: nothing but what connections need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import CoroutineType, GeneratorType
from typing import Any

from srm_common.kafka.client.connections.event_loop import EventLoop

#: Of a slot. Where one is closed at the end, what belongs to it ends at the loop's next turn.
_LINKS = 2
_OF_EACH_LINK = "LinkMetadata._refresh_loop"
#: Of connections that are kept: readers, timers, and the loop that refreshes metadata. And a request for metadata that
#: another broker has answered, as it waits for a connection.
_HARMLESS = {
    "EventLoop.call_soon_with_future.<locals>.work",
    "FrameConnection._look_after",
    "FrameConnectionManager.close_idle_connections",
    "KafkaConnection._maybe_unthrottle",
    _OF_EACH_LINK,
    "Signal._wake",
    "WakeupNotifier._wakeup",
    "_FrameIO._read_from_sock",
    "any_answer.<locals>.attempt",
}


def left_in(loop: EventLoop) -> set[str]:
    """What would go on beside the next slot, by the names of coroutines and functions; to be empty."""
    names = Counter(name for task in _tasks(loop) for name in _names(task))
    refreshing = names[_OF_EACH_LINK]
    return (names.keys() - _HARMLESS) | ({f"{refreshing} of {_OF_EACH_LINK}"} if refreshing > _LINKS else set())


def _tasks(loop: EventLoop) -> Iterator[Any]:
    tasks = {*loop._pending_tasks, *loop._ready, *(task for _, task in loop._scheduled)}
    return (task for task in tasks if not task.is_done)


def _names(task: Any) -> Iterator[str]:
    """The coroutines and functions that a task of the library is made of."""
    stack = task._stack
    while stack:
        work, stack = stack
        if isinstance(work, CoroutineType):
            yield work.__qualname__
            inner = None if work.cr_frame is None else work.cr_frame.f_locals.get("result")
        else:
            inner = work.gi_frame.f_locals.get("work") if isinstance(work, GeneratorType) and work.gi_frame else work
        if name := getattr(inner, "__qualname__", None):
            yield name
