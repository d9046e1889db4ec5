"""The first connection to a cluster: tries every address of every server until one returns the brokers."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from srm_common.kafka.client.connections.connection import FrameConnection
from srm_common.kafka.client.connections.connection_faults import fault_text, is_refusal, silence
from srm_common.kafka.client.connections.dialing import (
    LONGEST_PAUSE_SECONDS,
    NEXT_ATTEMPT_SECONDS,
    SILENT,
    Address,
    place_text,
    resolve,
    silent_last,
)
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.link_metadata import LinkMetadata
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.library import Errors

_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 0.05, 1.0
#: How long the other servers may still answer after one has refused the login.
_REFUSED_SECONDS = 2.0


@dataclass(eq=False)
class _Server:
    """One entry of ``bootstrap.servers``. ``node`` is the library's, with ``host`` and ``port``."""

    node: Any
    failures: int = 0
    resolving: bool = False
    fault: str | None = None
    #: address -> (its connection, when the attempt began)
    open: dict[Address, tuple[FrameConnection, float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return place_text((self.node.host, self.node.port))

    def said(self) -> str:
        """What is wrong with it, in a sentence."""
        steps = [connection.step for connection, _ in self.open.values()]
        return self.fault or silence(self.name, next(filter(None, steps), None))


class Connections(Protocol):
    """What :class:`Bootstrap` needs of a cluster's connections.

    ``broker_version_data``, the library's, holds the API versions that all connections may rely on.
    """

    broker_version_data: Any

    @property
    def loop(self) -> EventLoop: ...

    @property
    def cluster(self) -> LinkMetadata: ...

    @property
    def closed(self) -> bool: ...

    @property
    def setup_seconds(self) -> float: ...

    def new_connection(self, node_id: Any) -> FrameConnection: ...

    async def establish(self, conn: FrameConnection, host: str, addresses: Sequence[Address], limit: float) -> None: ...

    def adopt(self, conn: FrameConnection, server: Any) -> bool: ...


class Bootstrap:
    """Asks the servers of a cluster for its brokers, one after another without waiting for those that are silent.

    The pause before the next server is asked as well begins with a quarter of a second and grows: a cluster that is
    merely slow is asked a few times, not a hundred. Each attempt lasts ``socket.connection.setup.timeout.ms`` at most,
    from the connection to the answer, logins included; a server that failed is resolved and asked again after a pause
    of its own.
    """

    def __init__(self, manager: Connections, deadline: float) -> None:
        self._manager = manager
        self._loop = manager.loop
        self._deadline = deadline
        self._signal = Signal(self._loop)
        self._servers = [_Server(node) for node in manager.cluster.bootstrap_brokers()]
        self._waiting: list[tuple[_Server, Address, int]] = []
        self._tasks: set[Any] = set()
        #: When the next server is asked, though others have not answered yet.
        self._next_at = 0.0
        self._done = False
        self._refused: tuple[BaseException, float] | None = None

    async def run(self) -> None:
        """Return when the manager's metadata is that of the cluster.

        Raises:
            KafkaTimeoutError: no server answered before the deadline (monotonic seconds); its text says why not.
            SaslAuthenticationFailedError, UnsupportedSaslMechanismError, IncompatibleBrokerVersion: as a server says.
        """
        random.shuffle(self._servers)
        for server in self._servers:
            self._spawn(self._resolve(server))
        pause = NEXT_ATTEMPT_SECONDS
        try:
            while not self._done:
                now = time.monotonic()
                until = self._deadline
                if self._refused is not None:
                    until = min(until, self._refused[1])
                if now >= until or self._manager.closed:
                    raise self._failure()
                if self._waiting and (now >= self._next_at or not any(server.open for server in self._servers)):
                    server, address, _ = self._waiting.pop(0)
                    connection = self._manager.new_connection(server.node.node_id)
                    server.open[address] = connection, now
                    self._spawn(self._attempt(server, address, connection))
                    self._next_at, pause = now + pause, min(pause * 2, LONGEST_PAUSE_SECONDS)
                    continue
                if self._waiting:
                    until = min(until, self._next_at)
                await self._signal.wait(until - now)
        finally:
            now = time.monotonic()
            for server in self._servers:
                for address, (_, began) in server.open.items():
                    if now - began >= NEXT_ATTEMPT_SECONDS:
                        SILENT.note(address.place)
            for task in self._tasks:
                self._loop.cancel(task)

    def _failure(self) -> BaseException:
        if self._refused is not None:
            return self._refused[0]
        faults = [server.said() for server in sorted(self._servers, key=_by_name)]
        found: Exception = Errors.KafkaTimeoutError("; ".join(faults))
        return found

    def _spawn(self, work: Any) -> None:
        self._tasks.add(self._loop.call_soon(work))

    async def _resolve(self, server: _Server) -> None:
        """Put the server's addresses into the queue, unless they wait there already or are being tried."""
        server.resolving = True
        try:
            if server.failures:
                pause = min(_BACKOFF_SECONDS * 2 ** (server.failures - 1), _LONGEST_BACKOFF_SECONDS)
                await self._loop.sleep(pause * random.uniform(0.8, 1.2))
            addresses = await resolve(self._loop, server.node.host, server.node.port, self._deadline)
        except Exception as error:
            server.resolving = False
            self._failed(server, error)
            return
        server.resolving = False
        queued = {address for _, address, _ in self._waiting}
        for turn, address in enumerate(silent_last(addresses)):
            if address not in queued and address not in server.open:
                self._waiting.append((server, address, turn))
        # In turns: the first address of each server before the second of any.
        self._waiting.sort(key=lambda entry: (entry[1].place in SILENT, entry[2]))
        self._signal.set()

    def _failed(self, server: _Server, error: BaseException) -> None:
        server.failures += 1
        # A failure before the deadline says more than one that the deadline caused.
        if server.fault is None or time.monotonic() < self._deadline:
            server.fault = fault_text(error)
        self._next_at = 0.0
        if isinstance(error, Errors.IncompatibleBrokerVersion) or is_refusal(error):
            if self._refused is None:
                self._refused = error, time.monotonic() + (_REFUSED_SECONDS if len(self._servers) > 1 else 0.0)
        elif not server.resolving:
            self._spawn(self._resolve(server))
        self._signal.set()

    async def _attempt(self, server: _Server, address: Address, connection: FrameConnection) -> None:
        manager = self._manager
        limit = min(time.monotonic() + manager.setup_seconds, self._deadline)
        kept = False
        try:
            await manager.establish(connection, server.node.host, [address], limit)
            await self._ask(connection)
        except Exception as error:
            del server.open[address]
            self._failed(server, error)
        else:
            del server.open[address]
            kept = not self._done and manager.adopt(connection, server.node)
            self._done = True
            self._signal.set()
        finally:
            if not kept:
                connection.close(Errors.KafkaConnectionError("another connection is used"))

    async def _ask(self, connection: FrameConnection) -> None:
        cluster = self._manager.cluster
        connection.step = "the metadata request"
        try:
            answer = await connection.send_request(cluster.metadata_request())
        except Errors.KafkaConnectionError as error:
            # A listener with SASL answers nothing but the versions before the login.
            hint = (
                ""
                if connection.sasl_enabled
                else "; if its listener requires authentication, set security.protocol to SASL_..."
            )
            raise Errors.KafkaConnectionError(f"{connection.server}: {fault_text(error)}{hint}") from error
        if not answer.brokers:
            raise Errors.KafkaConnectionError("it knows of no brokers yet")
        if self._done:
            return
        cluster.update_metadata(answer)
        self._manager.broker_version_data = connection.broker_version_data


def _by_name(server: _Server) -> str:
    return server.name
