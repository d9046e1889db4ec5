"""Listens for clients: one port per node on the loopback address, all served by one thread.

As brokers do, it answers the requests of a connection one after another.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from srm_common.errors import LocalKafkaError
from srm_common.testing.fake_cluster.connection import Connection, Pause
from srm_common.testing.fake_cluster.faults import Faults
from srm_common.testing.fake_cluster.messages import Answer, Call, Protocol, UnknownApi
from srm_common.testing.ports import ReservedPort

_HOST = "127.0.0.1"
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Waiting:
    """An answer that has to wait for something: ``attempt(False)`` is tried at every change until it is not None, and
    after ``seconds`` it is ``attempt(True)``."""

    seconds: float
    attempt: Callable[[bool], Answer | None]


Handler = Callable[[Call], "Answer | Waiting | None"]


class Server:
    """The listeners of a cluster's nodes.

    Args:
        handlers: API -> what answers it, called under ``lock``; None is no answer at all.
        before: called before each request, under ``lock``.
    """

    def __init__(
        self,
        nodes: int,
        handlers: Mapping[str, Handler],
        lock: threading.RLock,
        before: Callable[[], None],
    ) -> None:
        self._handlers, self._lock, self._before = handlers, lock, before
        #: The versions that are offered.
        self.protocol = Protocol(set(), {})
        self.ports = {node: ReservedPort() for node in range(1, nodes + 1)}
        self.faults = Faults(self._go_away_for, self.wake)
        self.requests: list[Call] = []
        #: Why the fake could not answer: APIs it does not know, and faults of its own.
        self.failures: list[str] = []
        self._loop = asyncio.new_event_loop()
        #: Connections whose request waits for a change.
        self._parked: dict[Connection, None] = {}
        self._announced = False
        self._listeners: dict[int, asyncio.Server] = {}
        #: Nodes that take connections, from just before their listener is there.
        self._open: set[int] = set()
        self._connections: dict[int, set[Connection]] = {node: set() for node in self.ports}
        self._background: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None

    # ---- life

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-cluster", daemon=True)
        self._thread.start()
        self.come_back()

    def close(self) -> None:
        """Ends connections, listeners and the thread."""
        if self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(30)
            self._thread = None
        if not self._loop.is_closed():
            self._loop.close()
        for port in self.ports.values():
            port.release()

    def come_back(self, node: int | None = None) -> None:
        """Listens on the ports (again)."""
        asyncio.run_coroutine_threadsafe(self._listen(node), self._loop).result(30)

    def go_away(self, node: int | None = None) -> None:
        """Ends the connections of a node, or of all, and closes ports. From any thread."""
        if threading.current_thread() is self._thread:
            self._close_node(node)
        else:

            async def closing() -> None:
                self._close_node(node)

            asyncio.run_coroutine_threadsafe(closing(), self._loop).result(30)

    def listening(self, node: int) -> bool:
        return node in self._open

    def wake(self) -> None:
        """Something changed that an answer may wait for. From any thread."""
        if threading.current_thread() is self._thread:
            # What is being answered now has seen the change, or made it.
            if self._parked and not self._announced:
                self._announced = True
                self._loop.call_soon(self._announce)
        elif self._thread is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed in between
                self._loop.call_soon_threadsafe(self._announce)

    # ---- inside, all in the thread

    def _announce(self) -> None:
        self._announced = False
        for connection in list(self._parked):
            self._resume(connection)

    def _park(self, connection: Connection, pause: Pause) -> None:
        if pause.until_change:
            self._parked[connection] = None
        if pause.seconds is not None:
            connection.timer = self._loop.call_later(pause.seconds, self._resume, connection)

    def _resume(self, connection: Connection) -> None:
        self._parked.pop(connection, None)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        connection.go_on()

    async def _listen(self, node: int | None) -> None:
        for number, port in self.ports.items():
            if number in self._listeners or node not in (None, number):
                continue

            def connection(number: int = number) -> Connection:
                return Connection(
                    lambda frame, client: self._respond(number, frame, client),
                    self._park,
                    lambda connection: self._connected(number, connection),
                    self._connections[number].discard,
                )

            self._open.add(number)
            self._listeners[number] = await self._loop.create_server(
                connection, _HOST, port.number, backlog=_BACKLOG, reuse_address=True
            )

    async def _end(self) -> None:
        self._close_node(None)
        for connections in self._connections.values():
            for connection in list(connections):
                connection.abort()
        me = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _go_away_for(self, seconds: float | None) -> None:
        self._close_node(None)
        if seconds is not None:
            self._loop.call_later(seconds, lambda: self._background.add(self._loop.create_task(self._listen(None))))

    def _close_node(self, node: int | None) -> None:
        for number in list(self._listeners):
            if node in (None, number):
                self._open.discard(number)
                self._listeners.pop(number).close()
                for connection in list(self._connections[number]):
                    connection.close()

    def _connected(self, node: int, connection: Connection) -> None:
        self._connections[node].add(connection)
        if node not in self._open:  # came in just before the port was closed
            connection.close()

    def _respond(self, node: int, payload: memoryview, connection: Connection) -> Generator[Pause, None, bool]:
        """Carries a request out and answers it; False ends the connection."""
        try:
            call, number = self.protocol.read(payload, node)
        except UnknownApi as error:
            self.failures.append(str(error))
            return False
        except Exception:
            self.failures.append(f"a request could not be read: {traceback.format_exc()}")
            return False
        call.refusal = self.faults.refusal
        self.requests.append(call)
        seconds = self.faults.delay(call.api)
        if seconds:
            yield Pause(seconds, until_change=False)
        yield from self._silence(call.api)
        try:
            answer = yield from self._answer(call)
            out = None if answer is None else self.protocol.write(call, number, answer)
        except Exception:
            self.failures.append(f"{call.api} failed in the fake cluster: {traceback.format_exc()}")
            return False
        if connection.closing:
            return False
        yield from self._silence(call.api)
        if self.faults.drops(call.api):
            connection.abort()
            return False
        if out is not None:
            connection.write(out)
        # Nothing is waited for in between: no request that follows this answer is seen before.
        for action in self.faults.answered(call.api):
            action()
        return True

    def _answer(self, call: Call) -> Generator[Pause, None, Answer | None]:
        with self._lock:
            self._before()
            found = self._handlers[call.api](call)
        if not isinstance(found, Waiting):
            return found
        deadline = self._loop.time() + found.seconds
        while True:
            with self._lock:
                answer = found.attempt(False)
            if answer is not None:
                return answer
            left = deadline - self._loop.time()
            if left > 0:
                yield Pause(left, until_change=True)
                continue
            with self._lock:
                answer = found.attempt(True)
            assert answer is not None, f"{call.api} has no answer after its time"
            return answer

    def _silence(self, api: str) -> Generator[Pause, None, None]:
        while self.faults.silent(api):
            yield Pause(None, until_change=True)


def raise_failures(failures: list[str], name: str) -> None:
    """Raises LocalKafkaError with what the fake could not answer."""
    if failures:
        raise LocalKafkaError(f"{name}: " + "; ".join(dict.fromkeys(failures)))
