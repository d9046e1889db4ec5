"""Listens for clients: one port per node on the loopback address, all served by one thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from srm_common.testing.fake_cluster.connection import Connection, Timer
from srm_common.testing.fake_cluster.service import Handler, Service
from srm_common.testing.ports import ReservedPort

_HOST = "127.0.0.1"
_BACKLOG = 128


class Server(Service):
    """The listeners of a cluster's nodes; arguments as :class:`Service` has them."""

    def __init__(
        self,
        nodes: range,
        handlers: Mapping[str, Handler],
        lock: threading.RLock,
        before: Callable[[], None],
    ) -> None:
        super().__init__(nodes, handlers, lock, before)
        self._ports = {node: ReservedPort() for node in nodes}
        self._loop = asyncio.new_event_loop()
        self._announced = False
        self._listeners: dict[int, asyncio.Server] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None

    @property
    def places(self) -> dict[int, tuple[str, int]]:
        return {node: (_HOST, port.number) for node, port in self._ports.items()}

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
        for port in self._ports.values():
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
        super()._announce()

    def _now(self) -> float:
        return self._loop.time()

    def later(self, seconds: float, work: Callable[[], None]) -> Timer:
        return self._loop.call_later(seconds, work)

    async def _listen(self, node: int | None) -> None:
        for number, port in self._ports.items():
            if number in self._listeners or node not in (None, number):
                continue

            def connection(number: int = number) -> Connection:
                return self._connection(number)

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
