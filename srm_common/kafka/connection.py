"""kafka-python's connections and their manager, over the transports made for large frames."""

from __future__ import annotations

import time
from typing import Any

import kafka.errors as Errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import TaskState

from srm_common.kafka.frames import FrameProtocol, RawFetch, RawProduce
from srm_common.kafka.transport import FrameTlsTransport, FrameTransport


class _Never:
    """Stands for a timer that never runs: raw requests share one per connection."""

    state = TaskState.DONE


class FrameConnection(KafkaConnection):  # type: ignore[misc]
    """A connection whose parser takes whole frames, and whose raw requests cost little."""

    _watching = False

    def connection_made(self, transport: Any) -> None:
        """As the library does, then the parser is put in place of its own."""
        super().connection_made(transport)
        self.parser = FrameProtocol(client_id=self.config["client_id"])

    def send_request(self, request: Any, request_timeout_ms: float | None = None) -> Any:
        """As the library does; a raw request on a ready connection goes without a timer task of its own."""
        raw = isinstance(request, (RawProduce, RawFetch))
        if not raw or self.paused or not self.connected or self._reauth.is_reauthenticating:
            return super().send_request(request, request_timeout_ms=request_timeout_ms)
        future = Future()
        now = time.monotonic()
        deadline = self._timeout_at(now, request_timeout_ms)
        number = self.parser.send_request(request)
        self.in_flight_requests.append((number, future, now, deadline, _Never))
        self.transport.write(self.parser.send_bytes())
        if len(self.in_flight_requests) >= self.config["max_in_flight_requests_per_connection"]:
            self.pause("max_in_flight")
        if not self._watching:
            self._watching = True
            self.net.call_at(deadline, self._watch)
        return future

    def _watch(self) -> None:
        """Close the connection when its oldest request is overdue; look again when the next one may be."""
        self._watching = False
        if self.closed or not self.in_flight_requests:
            return
        _, _, sent, deadline, _ = self.in_flight_requests[0]
        if deadline <= time.monotonic():
            waited = (deadline - sent) * 1000
            self.close(Errors.RequestTimedOutError(f"Request timed out after {waited:.0f} ms"))
            return
        self._watching = True
        self.net.call_at(deadline, self._watch)


class FrameConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """The library's manager over the transports above.

    ``last_fault`` says why the latest connection could not be made. A refused login fails the next use of the node at
    once, where the library would try until the time is over.
    """

    def __init__(self, net: Any, **configs: Any) -> None:
        super().__init__(net, **configs)
        self.last_fault: str | None = None
        self._refused_logins: dict[Any, BaseException] = {}

    def _connecting_failed(self, node_id: Any, error: BaseException) -> None:
        self.last_fault = str(error) or type(error).__name__
        if isinstance(error, (Errors.SaslAuthenticationFailedError, Errors.UnsupportedSaslMechanismError)):
            self._refused_logins[node_id] = error

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
        if node_id in self._refused_logins:
            raise self._refused_logins.pop(node_id)
        if self.connection_delay(node_id) > 0:
            raise Errors.NodeNotReadyError(node_id)
        if node_id in self._conns:
            return self._conns[node_id]
        node = self.cluster.broker_metadata(node_id)
        if node is None:
            raise Errors.UnknownBrokerIdError(node_id)
        conn = FrameConnection(self._net, node_id=node_id, broker_version_data=self.broker_version_data, **self.config)
        if pop_on_close:
            conn.close_future.add_both(lambda _: self._conns.pop(node.node_id, None))
        if refresh_metadata_on_err:
            conn.close_future.add_errback(lambda _: self.cluster.request_update())
        conn.init_future.add_errback(lambda error: self._connecting_failed(node_id, error))
        self._conns[node_id] = conn
        if timeout_ms is None:
            timeout_ms = self.socket_connection_setup_timeout_ms(node_id)
        deadline = time.monotonic() + timeout_ms / 1000
        self._net.call_soon(
            lambda: self._connect(node, conn, reset_backoff_on_connect=reset_backoff_on_connect, timeout_at=deadline)
        )
        return conn

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
        if self.ssl_enabled:
            options = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            transport: Any = FrameTlsTransport(self._net, sock, host=node.host, **options)
        else:
            transport = FrameTransport(self._net, sock, host=node.host)
        try:
            await transport.handshake()
        except Exception as error:
            raise Errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport
