"""Listens for clients: one port per node on the loopback address, all served by one thread.

As brokers do, it answers the requests of a connection one after another.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from srm_common.errors import LocalKafkaError
from srm_common.testing.fake_cluster.faults import Faults
from srm_common.testing.fake_cluster.messages import Answer, Call, Protocol, UnknownApi
from srm_common.testing.ports import ReservedPort

_HOST = "127.0.0.1"
_SIZE = struct.Struct(">i")
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
        self._changed: asyncio.Event | None = None
        self._listeners: dict[int, asyncio.Server] = {}
        #: Nodes that take connections, from just before their listener is there.
        self._open: set[int] = set()
        self._connections: dict[int, set[asyncio.StreamWriter]] = {node: set() for node in self.ports}
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
        if self._thread is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed in between
                self._loop.call_soon_threadsafe(self._announce)

    # ---- inside, all in the thread

    def _announce(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    async def _listen(self, node: int | None) -> None:
        for number, port in self.ports.items():
            if number in self._listeners or node not in (None, number):
                continue

            def connected(reader: Any, writer: Any, number: int = number) -> Any:
                return self._serve(number, reader, writer)

            self._open.add(number)
            self._listeners[number] = await asyncio.start_server(
                connected, _HOST, port.number, backlog=_BACKLOG, reuse_address=True
            )

    async def _end(self) -> None:
        self._close_node(None)
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
                for writer in list(self._connections[number]):
                    writer.close()

    async def _serve(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections = self._connections[node]
        connections.add(writer)
        if node not in self._open:  # came in just before the port was closed
            writer.close()
        sock = writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while not writer.is_closing():
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                if not await self._respond(node, await reader.readexactly(size), writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            connections.discard(writer)
            writer.close()

    async def _respond(self, node: int, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        """False ends the connection."""
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
        pause = self.faults.delay(call.api)
        if pause:
            await asyncio.sleep(pause)
        await self._silence(call.api)
        try:
            answer = await self._answer(call)
            out = None if answer is None else self.protocol.write(call, number, answer)
        except Exception:
            self.failures.append(f"{call.api} failed in the fake cluster: {traceback.format_exc()}")
            return False
        if writer.is_closing():
            return False
        await self._silence(call.api)
        if self.faults.drops(call.api):
            writer.transport.abort()
            return False
        if out is not None:
            writer.write(out)
        # Nothing is awaited in between: no request that follows this answer is seen before.
        for action in self.faults.answered(call.api):
            action()
        await writer.drain()
        return True

    async def _answer(self, call: Call) -> Answer | None:
        with self._lock:
            self._before()
            found = self._handlers[call.api](call)
        if not isinstance(found, Waiting):
            return found
        deadline = self._loop.time() + found.seconds
        while True:
            changed = self._change()
            with self._lock:
                answer = found.attempt(False)
            if answer is not None:
                return answer
            left = deadline - self._loop.time()
            if left > 0:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), left)
                    continue
            with self._lock:
                answer = found.attempt(True)
            assert answer is not None, f"{call.api} has no answer after its time"
            return answer

    async def _silence(self, api: str) -> None:
        while True:
            changed = self._change()
            if not self.faults.silent(api):
                return
            await changed.wait()

    def _change(self) -> asyncio.Event:
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed


def raise_failures(failures: list[str], name: str) -> None:
    """Raises LocalKafkaError with what the fake could not answer."""
    if failures:
        raise LocalKafkaError(f"{name}: " + "; ".join(dict.fromkeys(failures)))
