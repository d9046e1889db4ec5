"""kafka-python's event loop, with sockets that stay registered between two waits.

The library registers a socket for each wait and takes it out again, which costs 11 to 14 us of CPU; to find it
registered already costs 1. Everything that one turn of the loop sends may go out in one system call at its end. And a
turn writes no trace, which costs the library five calls even when tracing is off.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from functools import partial
from types import FunctionType, MethodType
from typing import Any, ClassVar

from srm_common.kafka.client.library import (
    MAX_TIMEOUT,
    Errors,
    Future,
    KernelEvent,
    NetworkSelector,
    Task,
    TaskState,
)

_LOG = logging.getLogger(__name__)

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

#: See :meth:`EventLoop.when_quiet`.
_MOST_PATIENCE_SECONDS = 0.002

_OF_THREAD = threading.local()


def interrupt(reason: str = "") -> None:
    """For signal handlers: end what the thread is doing, by KeyboardInterrupt with the reason.

    A running loop raises it between two of its tasks. Within one the library would log it and continue, and
    whoever waits for that task would wait forever.
    """
    loop: EventLoop | None = getattr(_OF_THREAD, "loop", None)
    if loop is None:
        raise KeyboardInterrupt(reason)
    loop.interrupt(reason)


def _task_of(work: Any) -> Any:
    """A task of a coroutine or a function. The library takes four calls to find out the kind of function, and then
    treats all kinds alike: it calls them when the task runs, and continues with what they return."""
    return Task(_called(work) if isinstance(work, FunctionType | MethodType) else work)


def _called(work: Callable[[], object]) -> Generator[object, object, object]:
    return (yield work())


class _Watched:
    """A registered socket, the events that the kernel reports, and the tasks that wait for them. A task is forgotten
    when its event comes."""

    __slots__ = ("descriptor", "events", "reader", "socket", "writer")

    def __init__(self, socket: Any, descriptor: int) -> None:
        self.socket = socket
        self.descriptor = descriptor
        self.events = 0
        self.reader: Any = None
        self.writer: Any = None

    def forget(self, task: Any) -> None:
        """The task no longer waits."""
        if self.reader is task:
            self.reader = None
        if self.writer is task:
            self.writer = None


class Turns(selectors.BaseSelector):
    """Goes in front of a selector. Before the selector waits, work that was put off until then is done. While tasks
    are ready, only every second turn of the loop asks it for events: most often an answer makes one task ready, and
    nothing else has happened."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._asked = False
        #: The reason, once it is to be interrupted.
        self.interrupted: str | None = None
        self.put_off: list[Callable[[], None]] = []
        self.impatient: list[Callable[[], None]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.interrupted is not None:
            reason, self.interrupted = self.interrupted, None
            raise KeyboardInterrupt(reason)
        if self._asked and self._loop._ready:
            self._asked = False
            return []
        self._asked = True
        if self.put_off:
            due, self.put_off = self.put_off, []
            for work in due:
                work()
            if self._loop._ready:
                timeout = 0
        if not self.impatient:
            return super().select(timeout)
        limited = timeout is None or timeout > _MOST_PATIENCE_SECONDS
        events = super().select(_MOST_PATIENCE_SECONDS if limited else timeout)
        if limited and not events:
            due, self.impatient = self.impatient, []
            for work in due:
                work()
        return events


class _Selector(Turns, selectors.DefaultSelector): ...


class Kernel:
    """The operating system's selectors and sockets."""

    def selector(self, loop: EventLoop) -> Turns:
        """A selector for a new loop."""
        return _Selector(loop)

    def socket(self, family: int) -> socket.socket:  # a stream socket that is not connected
        return socket.socket(family, socket.SOCK_STREAM)


class EventLoop(NetworkSelector):  # type: ignore[misc]
    """The loop of one thread. A socket is registered at its first wait and stays so until it is closed.

    The kernel reports a state, not a change (epoll, level-triggered). So an event that comes while no task waits for
    it is switched off, and on again by the next wait; a socket without any event left is taken out, because a hang-up
    is reported whatever was asked for.
    """

    #: Shared by all loops; a simulated network puts its own here.
    kernel: ClassVar[Kernel] = Kernel()

    def __init__(self) -> None:
        super().__init__(slow_task_threshold_secs=0, selector=partial(self.kernel.selector, self))
        self._watched: dict[int, _Watched] = {}

    def run(self, coro: Any, *args: Any) -> Any:
        """As the library does; until it returns, :func:`interrupt` applies to this loop."""
        before = getattr(_OF_THREAD, "loop", None)
        _OF_THREAD.loop = self
        try:
            return super().run(coro, *args)
        finally:
            _OF_THREAD.loop = before

    def interrupt(self, reason: str = "") -> None:
        """Raise KeyboardInterrupt at the next turn, out of :meth:`run`."""
        self._selector.interrupted = reason
        self.wakeup()

    def before_wait(self, work: Callable[[], None]) -> None:
        """Call ``work`` when this turn of the loop has nothing left to do but to wait."""
        self._selector.put_off.append(work)

    def when_quiet(self, work: Callable[[], None]) -> None:
        """Call ``work`` once nothing has happened for two milliseconds."""
        self._selector.impatient.append(work)

    def current_task(self) -> Any:
        """The task of the coroutine that runs now."""
        return self._current

    def throw(self, task: Any, error: Exception) -> None:
        """Raise ``error`` in a task where it waits."""
        for watched in self._watched.values():
            watched.forget(task)
        task.inject_exc(error)
        self._add_ready_task(task)

    def call_soon(self, task: Any) -> Any:
        """As the library does; a task that was cancelled while it waited for a future stays cancelled."""
        if not isinstance(task, Task):
            task = _task_of(task)
        elif task.is_done:
            return task
        self._add_ready_task(task)
        self._pending_tasks.add(task)
        return task

    def call_at(self, when: float, task: Any) -> Any:
        """As the library does."""
        return super().call_at(when, task if isinstance(task, Task) else _task_of(task))

    def call_later(self, delay: float, task: Any) -> Any:
        """As the library does."""
        return self.call_at(time.monotonic() + delay, task)

    def call_soon_threadsafe(self, callback: Any) -> Any:
        """As the library does; the thread that drives the loop need not be woken by two system calls."""
        if getattr(_OF_THREAD, "loop", None) is not self or self._closed:
            return super().call_soon_threadsafe(callback)
        return self.call_soon(callback)

    def call_soon_with_future(self, coro: Any, *args: Any) -> Any:
        """As the library does, which finds out by four calls whether ``coro`` is a function."""
        future = Future()

        async def work() -> None:
            try:
                result = coro if hasattr(type(coro), "__await__") else coro(*args)
                while hasattr(type(result), "__await__"):
                    result = await result
                future.success(result)
            except BaseException as error:  # as the library does: raised where the future is awaited
                future.failure(error)

        self.call_soon_threadsafe(work)
        return future

    def park(self, waiting: list[Any]) -> Any:
        """To be awaited: puts the current task into ``waiting`` and suspends it until it is given to :meth:`unpark`.
        A future does the same at three times the cost."""
        return KernelEvent("_park", waiting)

    def _park(self, waiting: list[Any]) -> None:
        self._current.state = TaskState.WAIT_FUTURE
        waiting.append(self._current)

    def unpark(self, task: Any) -> None:
        """Let a parked task continue, unless it has ended meanwhile."""
        if not task.is_done:
            self._add_ready_task(task)

    def _poll_once(self, timeout: float | None = None) -> None:
        """One turn as the library's, without trace and clock for each task."""
        if not self._poll_lock.acquire(blocking=False):
            raise RuntimeError("two calls drive the event loop at the same time")
        try:
            ready = self._ready
            if ready:
                timeout = 0
            else:
                if self._scheduled:
                    due = self._scheduled[0][0] - time.monotonic()
                    timeout = due if timeout is None or due < timeout else timeout
                if timeout is not None:
                    timeout = 0 if timeout < 0 else MAX_TIMEOUT if timeout > MAX_TIMEOUT else timeout
            events = self._selector.select(timeout)
            if events:
                self._process_events(events)
            if self._scheduled:
                self._schedule_tasks()
            for _ in range(len(ready)):
                task = self._current = ready.popleft()
                if not task.is_done:
                    self._advance(task)
            self._current = None
        finally:
            self._poll_lock.release()

    def _advance(self, task: Any) -> None:
        """Run a task up to its next wait."""
        task.state = TaskState.RUNNING
        try:
            event = task()
        except StopIteration:
            self._task_done(task)
        except BaseException:  # as the library does: whoever wants a task's error catches it inside the task
            level = logging.DEBUG if self._closed else logging.ERROR  # a closed loop refuses what its last tasks begin
            _LOG.log(level, "a task of the event loop failed: %s", task, exc_info=True)
            self._task_done(task)
        else:
            if task.state is TaskState.CANCELLED:
                self._pending_tasks.discard(task)
                task.close()
            elif isinstance(event, Future):
                task.state = TaskState.WAIT_FUTURE

                def go_on(_: Any) -> None:
                    self.call_soon(task)

                event._add_cb_eb(go_on, go_on)
            else:
                try:
                    getattr(self, event.method)(*event.args)
                except BaseException as error:  # it is the task's own
                    task.inject_exc(error)
                    self._add_ready_task(task)

    def register_event(self, fileobj: Any, event: int, task: Any) -> None:
        """Run ``task`` when ``event`` is reported next."""
        self._wait_for(fileobj, event, task if isinstance(task, Task) else Task(task))

    def unregister_event(self, fileobj: Any, event: int) -> None:
        """Stop reporting ``event``; with both events, as the library does before it closes a socket, forget it."""
        watched = self._watched.get(fileobj.fileno())
        if watched is None or watched.socket is not fileobj:
            return
        if event & _READ:
            watched.reader = None
        if event & _WRITE:
            watched.writer = None
        self._report(watched, watched.events & ~event)

    def forget(self, sock: Any) -> None:
        """To be called before a socket is closed or wrapped in another."""
        self.unregister_event(sock, _READ | _WRITE)

    def close(self) -> None:
        """End all tasks and the loop."""
        super().close()
        self._watched.clear()

    def _wait_for(self, fileobj: Any, event: int, task: Any) -> None:
        descriptor = fileobj.fileno()
        watched = self._watched.get(descriptor)
        if watched is None or watched.socket is not fileobj:
            if descriptor < 0:
                raise ValueError(f"a task waits for a closed socket: {fileobj}")
            if watched is not None:  # closed without :meth:`forget`, and its number is another socket's now
                self._report(watched, 0)
            watched = _Watched(fileobj, descriptor)
        waiting = watched.reader if event == _READ else watched.writer
        if waiting is not None and not waiting.is_done:
            raise RuntimeError(f"two tasks wait for the same event of {fileobj}")
        if not watched.events & event:
            self._report(watched, watched.events | event)
        if event == _READ:
            watched.reader = task
        else:
            watched.writer = task

    def _report(self, watched: _Watched, events: int) -> None:
        """Ask the kernel for exactly these events of a socket."""
        before, watched.events = watched.events, events
        if not events:
            if before:
                del self._watched[watched.descriptor]
                self._selector.unregister(watched.descriptor)
        elif before:
            self._selector.modify(watched.descriptor, events, watched)
        else:
            self._watched[watched.descriptor] = watched
            self._selector.register(watched.descriptor, events, watched)

    def _wait_io(self, fileobj: Any, event: int, timeout_at: float | None) -> None:
        """Park the current task until ``event``; KafkaTimeoutError in it after ``timeout_at`` (monotonic seconds)."""
        suspended = self._current
        self._wait_for(fileobj, event, suspended)
        suspended.state = TaskState.WAIT_IO
        if timeout_at is None or self._closed:
            return
        timer: Any = None

        def guard() -> Generator[None, None, None]:
            # Lies on the task's stack above the waiting coroutine, and ends whichever way the wait does.
            try:
                yield
            finally:
                if timer is not None and not timer.is_done:
                    self.cancel(timer)

        guarding = guard()
        next(guarding)
        suspended.push_stack(guarding)

        def too_late() -> None:
            nonlocal timer
            timer = None
            if suspended.is_done or suspended.state is not TaskState.WAIT_IO:
                return
            self.throw(suspended, Errors.KafkaTimeoutError("I/O wait timed out"))

        timer = self.call_at(timeout_at, too_late)

    def _process_events(self, event_list: Iterable[Any]) -> None:
        for key, events in event_list:
            watched = key.data
            if not isinstance(watched, _Watched):
                super()._process_events([(key, events)])
                continue
            unwanted = 0
            if events & _WRITE:
                task, watched.writer = watched.writer, None
                if task is None or task.is_done:
                    unwanted |= _WRITE
                else:
                    self._add_ready_task(task)
            if events & _READ:
                task, watched.reader = watched.reader, None
                if task is None or task.is_done:
                    unwanted |= _READ
                else:
                    self._add_ready_task(task)
            if unwanted:
                self._report(watched, watched.events & ~unwanted)
