"""kafka-python's connections of one cluster, made without waiting for servers that are silent."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from srm_common.kafka.client.connections.any_answer import NEXT_BROKER_SECONDS, any_answer
from srm_common.kafka.client.connections.bootstrap import Bootstrap
from srm_common.kafka.client.connections.connection import FrameConnection
from srm_common.kafka.client.connections.connection_faults import (
    FIRST_REQUEST,
    fault_text,
    handshake_fault,
    is_refusal,
)
from srm_common.kafka.client.connections.dialing import (
    NEXT_ATTEMPT_SECONDS,
    SILENT,
    Address,
    canonical_servers,
    dial,
    place_text,
    resolve,
)
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.link_metadata import LinkMetadata
from srm_common.kafka.client.connections.newest_epochs import NewestEpochs
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.connections.transport import FrameTlsTransport, FrameTransport
from srm_common.kafka.client.library import Errors, KafkaConnectionManager
from srm_common.kafka.client.logins.current_login import CurrentLogin
from srm_common.kafka.client.logins.security import TlsContexts

_CANONICAL = "resolve_canonical_bootstrap_servers_only"
#: How long the bootstrap servers are asked when no broker is left.
_SEARCH_SECONDS = 2.0
#: How long a connection that is handed on may have been unused, at most. Firewalls and load balancers forget it after
#: minutes.
_MAX_IDLE_SECONDS = 180.0
#: How long connections are handed on. New ones show other brokers, versions, certificates, and that a user was removed.
_MAX_AGE_SECONDS = 600.0


class FrameConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """The library's manager over the transports above.

    ``last_fault`` says why the latest connection could not be made. A refused login fails the next use of the node at
    once, where the library would try until the time is over. ``patience_ms`` is how long a request may go unanswered
    unless its sender says otherwise; None: as set. ``login`` is given where it may change, ``epochs`` to share them.
    """

    patience_ms: float | None = None
    closed = False
    _idle_check: Any = None

    def __init__(
        self, net: EventLoop, login: CurrentLogin | None = None, epochs: NewestEpochs | None = None, **configs: Any
    ) -> None:
        if configs.pop("client_dns_lookup", None) == _CANONICAL:
            configs["bootstrap_servers"] = canonical_servers(configs["bootstrap_servers"])
        super().__init__(net, **configs)
        self._login = login
        keys = ("bootstrap_servers", "metadata_max_age_ms")
        self.cluster = LinkMetadata(epochs, **{key: self.config[key] for key in keys})
        self.cluster.attach(self)
        self.last_fault: str | None = None
        self._began = time.monotonic()
        self.refused_logins: dict[Any, BaseException] = {}

    @property
    def loop(self) -> EventLoop:
        """The event loop that all connections share."""
        return self._net  # type: ignore[no-any-return]

    @property
    def setup_seconds(self) -> float:
        """How long making a connection may take, TLS and logins included (``socket.connection.setup.timeout.ms``)."""
        return float(self.config["socket_connection_setup_timeout_ms"]) / 1000

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        try:
            await Bootstrap(self, float("inf") if deadline is None else deadline).run()
        except Errors.KafkaError as error:
            self.last_fault = fault_text(error)
            raise
        self.cluster.start_refresh_loop()
        return True

    async def search_servers(self, *, anew: bool = False) -> None:
        """Ask the bootstrap servers for the brokers again. Raises KafkaTimeoutError.

        Args:
            anew: the brokers have sent us there: the connections to them end, as others may have their ids.
        """
        if anew:
            for conn in list(self._conns.values()):
                conn.drop("the broker sends clients back to the bootstrap servers")
        await Bootstrap(self, time.monotonic() + min(_SEARCH_SECONDS, self.setup_seconds)).run()

    def _connecting_failed(self, node_id: Any, error: BaseException) -> None:
        self.last_fault = fault_text(error)
        if is_refusal(error):
            self.refused_logins[node_id] = error

    def close_busy(self) -> bool:
        """Close the connections that are not idle; whether others are left to be handed on."""
        connections = list(self._conns.values())
        for conn in connections:
            if not conn.idle:
                conn.drop("closed with requests in flight")
        young = time.monotonic() - self._began < _MAX_AGE_SECONDS
        return young and any(conn.idle for conn in connections)

    def hand_on(self, client_id: str, request_timeout_ms: int) -> bool:
        """To another user: use this client id and this request timeout from now on, and forget what the one before
        has seen of brokers. Close connections that were unused for long, as requests there may get no answer; whether
        others are left."""
        self.config.update(client_id=client_id, request_timeout_ms=request_timeout_ms)
        self.patience_ms = None
        self.last_fault = None
        self.refused_logins.clear()
        for node in self.cluster.brokers():
            self.reset_backoff(node.node_id)
        self.cluster.forget()
        left = False
        unused = min(_MAX_IDLE_SECONDS, self.config["connections_max_idle_ms"] / 1000)
        for conn in list(self._conns.values()):
            if not conn.connected or time.monotonic() - conn.transport.last_activity > unused:
                conn.drop("unused for too long")
            else:
                conn.hand_on(client_id, request_timeout_ms)
                left = True
        return left

    def close_idle_connections(self) -> None:
        """As the library does, in a timer of its loop, which ends with the manager."""
        delay = most = self.config["connections_max_idle_ms"] / 1000
        for conn in [conn for conn in self._conns.values() if conn.connected]:
            left = conn.transport.last_activity + most - time.monotonic()
            if left > 0:
                delay = min(delay, left)
            else:
                conn.close()
        self._idle_check = self._net.call_later(max(delay, 0.1), self.close_idle_connections)

    def close(self, node_id: Any = None, timeout_ms: float | None = None) -> None:
        """As the library does, and leave nothing in the loop that goes on."""
        if node_id is None:
            for task in (self._idle_check, *(conn.connect_task for conn in self._conns.values())):
                if task is not None:
                    self._net.cancel(task)
        super().close(node_id, timeout_ms)

    def disconnect(self, node_id: Any, reason: str) -> None:
        """Close the connection to a node, if there is one; whatever waits for an answer fails at once."""
        connection = self._conns.get(node_id)
        if connection is not None:
            connection.drop(reason)

    def connected(self, node_id: Any) -> FrameConnection | None:
        """The connection to a node, if it is made; it may have to wait before it takes requests."""
        connection: FrameConnection | None = self._conns.get(node_id)
        return connection if connection is not None and connection.connected else None

    def heard_bytes(self, nodes: Iterable[Any] | None = None) -> int:
        """A figure that changes whenever one of these nodes, by default any, has sent something; or is disconnected."""
        found = [self.connected(node) for node in (list(self._conns) if nodes is None else nodes)]
        return sum(conn.transport.heard_bytes() for conn in found if conn is not None)

    def new_connection(self, node_id: Any) -> FrameConnection:
        """One that :meth:`establish` makes ready."""
        return FrameConnection(
            self._net, self._login, node_id=node_id, broker_version_data=self.broker_version_data, **self.config
        )

    def get_connection(
        self,
        node_id: Any,
        timeout_ms: float | None = None,
        pop_on_close: bool = True,
        refresh_metadata_on_err: bool = True,
        reset_backoff_on_connect: bool = True,
    ) -> Any:
        """The connection to a node, as the library makes it, but of our class."""
        if node_id is None:
            raise Errors.NodeNotReadyError("No node_id provided")
        if self.closed:
            raise Errors.NodeNotReadyError(f"the connection to node {node_id} is closed")
        if node_id in self.refused_logins:
            raise self.refused_logins.pop(node_id)
        if self.connection_delay(node_id) > 0:
            raise Errors.NodeNotReadyError(node_id)
        if node_id in self._conns:
            return self._conns[node_id]
        node = self.cluster.broker_metadata(node_id)
        if node is None:
            raise Errors.UnknownBrokerIdError(node_id)
        conn = self.new_connection(node_id)
        conn.init_future.add_errback(lambda error: self._connecting_failed(node_id, error))
        self._keep(conn, pop_on_close, refresh_metadata_on_err)
        if timeout_ms is None:
            timeout_ms = self.socket_connection_setup_timeout_ms(node_id)
        deadline = time.monotonic() + timeout_ms / 1000
        conn.connect_task = self._net.call_soon(
            lambda: self._connect(node, conn, reset_backoff_on_connect=reset_backoff_on_connect, timeout_at=deadline)
        )
        return conn

    def adopt(self, conn: FrameConnection, server: Any) -> bool:
        """Use a connection to a bootstrap server as the one to the broker with the same address, if there is one, so
        that the first request need not connect again.

        Args:
            server: the library's, with ``host`` and ``port``.
        """
        place = (server.host, server.port)
        there = [node.node_id for node in self.cluster.brokers() if (node.host, node.port) == place]
        # Brokers that advertise the same address cannot be told apart by it.
        if self.closed or len(there) != 1 or there[0] in self._conns or not conn.connected:
            return False
        conn.node_id = there[0]
        self._keep(conn)
        self.reset_backoff(conn.node_id)
        return True

    def _keep(self, conn: FrameConnection, pop_on_close: bool = True, refresh_metadata_on_err: bool = True) -> None:
        """Keep it as its node's connection until it is closed."""
        if pop_on_close:
            conn.close_future.add_both(lambda _: self._conns.pop(conn.node_id, None))
        if refresh_metadata_on_err:
            conn.close_future.add_errback(lambda _: self.cluster.request_update())
        self._conns[conn.node_id] = conn

    async def _connect(
        self, node: Any, conn: FrameConnection, reset_backoff_on_connect: bool = True, timeout_at: float | None = None
    ) -> None:
        limit = time.monotonic() + self.setup_seconds if timeout_at is None else timeout_at
        place = (node.host, node.port)
        try:
            addresses = await resolve(self.loop, node.host, node.port, limit)
            await self.establish(conn, node.host, addresses, limit)
        except Exception as error:
            SILENT.note(place)
            if not conn.closed:
                conn.close(error if isinstance(error, Errors.KafkaError) else _unexpected(conn, error))
            self.update_backoff(node.node_id)
            return
        SILENT.forget(place)
        if reset_backoff_on_connect:
            self.reset_backoff(node.node_id)

    async def establish(
        self, conn: FrameConnection, host: str, addresses: Sequence[Address], timeout_at: float
    ) -> None:
        """Make a connection ready: TCP, TLS and the first request (ApiVersions) to whichever address answers it, then
        the login there.

        Raises:
            KafkaError: it did not get ready before ``timeout_at`` (monotonic seconds), or the server refused; the text
                is one sentence that names the server.
        """
        port = addresses[0].place[1] if addresses else 0
        conn.starts(place_text((host, port)))
        address: Address | None = None
        try:
            options = self.config["socket_options"]
            greet = partial(self._greet, conn, host, timeout_at)
            greeted, address = await dial(self.loop, addresses, options, timeout_at, greet)
            conn.take_over(greeted)
            await conn.initialize(timeout_at=timeout_at)
            await conn.init_future
        except Exception as error:
            if address is not None and time.monotonic() >= timeout_at:
                SILENT.note(address.place)
            if address is None and isinstance(error, Errors.KafkaTimeoutError):
                raise conn.explained(error) from error
            if isinstance(error, Errors.KafkaError):
                raise
            raise _unexpected(conn, error) from error
        SILENT.forget(address.place)

    def _transport(self, sock: Any, host: str) -> Any:
        try:
            if not self.ssl_enabled:
                return FrameTransport(self._net, sock, host=host)
            options = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            if isinstance(options["ssl_context"], TlsContexts):
                options["ssl_context"] = options["ssl_context"].current()
            return FrameTlsTransport(self._net, sock, host=host, **options)
        except Exception:
            sock.close()
            raise

    async def _greet(self, conn: FrameConnection, host: str, timeout_at: float, sock: Any) -> FrameConnection:
        """A connection over a connected socket, once the server has answered the first request: the kernel accepts
        connections for a process that hangs or is stopped, too."""
        transport = await self._secure(conn, host, timeout_at, sock)
        greeted = self.new_connection(conn.node_id)
        greeted.starts(conn.server)
        conn.step = FIRST_REQUEST
        with ExitStack() as undo:
            undo.callback(greeted.close)
            greeted.connection_made(transport)
            await greeted.ask_versions(timeout_at)
            undo.pop_all()
        return greeted

    async def _secure(self, conn: FrameConnection, host: str, timeout_at: float, sock: Any) -> Any:
        """The transport over a connected socket, after the TLS handshake."""
        try:
            transport = self._transport(sock, host)
        except OSError as error:  # of a file with certificates
            raise _unexpected(conn, error) from error
        conn.step = "the TLS handshake"
        with ExitStack() as undo:
            undo.callback(transport.close)
            try:
                await transport.handshake(timeout_at)
            except OSError as error:  # ssl.SSLError is one
                raise Errors.KafkaConnectionError(handshake_fault(conn.server, error)) from error
            undo.pop_all()
        return transport

    async def ready_node(self, but: Sequence[Any] = ()) -> Any:
        """A connected node that takes requests, preferably an idle one; if none is, nodes are connected side by side.

        Args:
            but: nodes that are not wanted.

        Raises:
            NodeNotReadyError: no node took a connection.
            SaslAuthenticationFailedError, UnsupportedSaslMechanismError: one refused the login.
        """
        signal = Signal(self.loop)
        awaited: set[FrameConnection] = set()
        pause = NEXT_ATTEMPT_SECONDS
        while True:
            nodes = [node for node in self.cluster.brokers() if node.node_id not in but]
            known = [conn for node in nodes if (conn := self._conns.get(node.node_id)) is not None]
            usable = sorted((conn for conn in known if conn.connected and not conn.paused), key=_load)
            fresh = [
                node for node in nodes if node.node_id not in self._conns and not self.connection_delay(node.node_id)
            ]
            random.shuffle(fresh)
            fresh.sort(key=_silent)
            if usable and (not usable[0].in_flight_requests or awaited or not fresh or _silent(fresh[0])):
                return usable[0].node_id
            waiting = [conn for conn in known if conn.initializing]
            if fresh:
                waiting.append(self.get_connection(fresh[0].node_id))
            elif not waiting:
                paused = [conn.node_id for conn in known if conn.connected]
                if paused:
                    return paused[0]
                raise Errors.NodeNotReadyError(self.last_fault or "no broker accepts connections")
            for conn in waiting:
                if conn not in awaited:
                    awaited.add(conn)
                    conn.init_future.add_both(lambda _: signal.set())
            await signal.wait(pause)
            pause = min(2 * pause, NEXT_BROKER_SECONDS)

    async def ask_any(self, make_request: Callable[[], Any]) -> Any:
        """As :func:`~srm_common.kafka.client.connections.any_answer.any_answer`."""
        return await any_answer(self, make_request)


def _unexpected(conn: FrameConnection, error: Exception) -> Exception:
    found: Exception = Errors.KafkaConnectionError(f"{conn.server}: {type(error).__name__}: {error}")
    return found


def _load(conn: FrameConnection) -> int:
    return len(conn.in_flight_requests)


def _silent(node: Any) -> bool:
    return (node.host, node.port) in SILENT
