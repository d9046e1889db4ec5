"""A connection of kafka-python over the transports made for large frames."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from srm_common.errors import AccessDenied, SrmError
from srm_common.kafka.client.connections.connection_faults import FIRST_REQUEST, explained, fault_text
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.threads import in_thread
from srm_common.kafka.client.library import Errors, Future, KafkaConnection, TaskState
from srm_common.kafka.client.logins.current_login import CurrentLogin
from srm_common.kafka.client.logins.kept_tokens import FetchedToken, KeptTokens
from srm_common.kafka.client.logins.kerberos import KerberosTickets, Ticket
from srm_common.kafka.client.logins.scram import Scram  # noqa: F401 - takes the place of the library's
from srm_common.kafka.client.protocol.broker_versions import version_fault
from srm_common.kafka.client.protocol.frames import FrameProtocol, RawFetch

T = TypeVar("T")

_tuple = tuple.__new__  # as in srm_common/wire/batches/batch.py

#: How often a connection is checked within its time limit.
_LOOKS = 4
#: A broker with more requests than these to answer has enough to do.
_ENOUGH_REQUESTS = 2


class VersionNotTaken(Errors.KafkaError):  # type: ignore[misc]
    """A broker does not take the version of a request that others of its cluster take, as while they are upgraded."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Never:
    """Stands for a timer that never runs: the requests of a connection share one."""

    state = TaskState.DONE


class _Patience(NamedTuple):
    """Since when a request has been waiting, and how long it may while no byte moves; in (monotonic) seconds."""

    since: float
    seconds: float


class FrameConnection(KafkaConnection):  # type: ignore[misc]
    """A connection whose parser takes whole frames, and whose requests cost little.

    A request's time limit is for silence: on a slow link a queue of requests may take minutes, and each byte that moves
    either way starts the limit over. Answers come in the order of the requests, so all wait for the same bytes.
    """

    #: Host and port, for messages.
    server = "the broker"
    _look_at: float | None = None
    _look: Any = None
    _moved = 0
    _moved_at = 0.0
    #: What is being waited for while the connection is made, None until it is taken.
    step: str | None = None
    broker_version_data: Any
    _knows_versions = False
    #: When the connection was begun, in monotonic seconds.
    began = 0.0
    #: What makes the connection ready.
    connect_task: Any = None

    def __init__(self, net: EventLoop, login: CurrentLogin | None = None, **options: Any) -> None:
        super().__init__(net, **options)
        self._login = login
        tokens = self.config["sasl_oauth_token_provider"]
        self._tokens = tokens if isinstance(tokens, KeptTokens) else None
        self._tickets = tokens if isinstance(tokens, KerberosTickets) else None
        self._usual_seconds = float(self.config["request_timeout_ms"]) / 1000

    def connection_made(self, transport: Any) -> None:
        """As the library does, then the parser is put in place of its own."""
        super().connection_made(transport)
        self.step = FIRST_REQUEST
        self.parser = FrameProtocol(client_id=self.config["client_id"])

    def hand_on(self, client_id: str, request_timeout_ms: int) -> None:
        """Use this client id and this request timeout from now on."""
        self.config.update(client_id=client_id, request_timeout_ms=request_timeout_ms)
        self._usual_seconds = request_timeout_ms / 1000
        self.parser.rename(client_id)

    @property
    def tls(self) -> bool:
        """Whether the connection uses TLS."""
        return self.config["security_protocol"] in ("SSL", "SASL_SSL")

    @property
    def idle(self) -> bool:
        """Whether it takes requests, and none waits to be sent or answered."""
        ready = self.connected and not self.paused and not self._waits
        return ready and not (self.in_flight_requests or self._request_buffer)

    def drop(self, reason: str) -> None:
        """Close it without a fault of the broker; whatever waits for an answer fails at once, with the reason."""
        if self.connect_task is not None:
            self.net.cancel(self.connect_task)
        self.close(Errors.KafkaConnectionError(reason))

    def throttled_seconds(self) -> float:
        """How long the broker wants no further requests (KIP-219); at most 0 when it takes them."""
        return float(self._throttle_time) - time.monotonic() if "throttle" in self.paused else 0.0

    @property
    def _waits(self) -> bool:
        """Whether requests wait until the connection is made, or until it has logged in again."""
        return bool(self.initializing or self._reauth.is_reauthenticating)

    def send_request(self, request: Any, request_timeout_ms: float | None = None, reply: Any = None) -> Any:
        """A future of the response, or ``reply``, which is called in its place; while the connection is being made,
        the request waits for it."""
        seconds = self._usual_seconds if request_timeout_ms is None else request_timeout_ms / 1000
        patience = _tuple(_Patience, (time.monotonic(), seconds))
        future = Future() if reply is None else reply
        if self._waits:
            self._request_buffer.append((request, future, patience))
            self._watch(patience)
        elif self.paused:
            future.failure(Errors.NodeNotReadyError(f"Node paused: {self.paused}"))
        elif not self.connected:
            future.failure(Errors.KafkaConnectionError("Node not connected"))
        else:
            self._post(request, future, patience)
        return future

    def send_buffered(self) -> None:
        """Send the requests that waited for the connection; their time begins now.

        The library encodes all of them, and never sends those beyond the most that may be in flight.
        """
        while self._request_buffer and "max_in_flight" not in self.paused:
            request, future, patience = self._request_buffer.popleft()
            if not future.is_done:
                self._post(request, future, _Patience(time.monotonic(), patience.seconds))

    def _post(self, request: Any, future: Any, patience: _Patience) -> None:
        if not (self.connected or self.initializing):
            future.failure(Errors.KafkaConnectionError("closed"))
            return
        known = self.broker_version_data
        if request.API_VERSION is None:
            try:
                request.API_VERSION = known.api_version(request.request if isinstance(request, RawFetch) else request)
            except Errors.IncompatibleBrokerVersion as error:
                future.failure(error)
                return
        elif known is not None and not self.initializing:
            kind = type(request).__name__
            fault = version_fault(kind, request.API_KEY, request.API_VERSION, known.api_versions)
            if fault:
                future.failure(VersionNotTaken(fault))
                return
        number = self.parser.send_request(request)
        if request.expect_response():
            self.in_flight_requests.append((number, future, patience.since, patience, _Never))
        else:
            future.success(None)
        if not self.paused:
            self.transport.writelines(self.parser.send_bytes())
        if len(self.in_flight_requests) >= self.config["max_in_flight_requests_per_connection"]:
            self.pause("max_in_flight")
        self._watch(patience)

    def data_received(self, data: Any) -> None:
        """Take one frame in as the library does, but without its debug log and latencies."""
        if not (self.connected or self.initializing):
            return
        number, answer = self.parser.receive(data)
        if not self.in_flight_requests:
            self.close(Errors.KafkaConnectionError("an unexpected response arrived"))
            return
        asked, future, _since, _limit, timer = self.in_flight_requests.popleft()
        if asked != number:
            self.close(Errors.KafkaConnectionError("a response to another request arrived"))
            return
        if timer is not _Never:
            self.net.cancel(timer)
        if getattr(answer, "throttle_time_ms", 0):
            self._maybe_throttle(answer)
        future.success(answer)
        if self.paused and len(self.in_flight_requests) < self.config["max_in_flight_requests_per_connection"]:
            self.unpause("max_in_flight")
            if self._request_buffer and not self._waits:
                self.send_buffered()
        self._reauth.on_response_processed()

    def bytes_worth_waking(self) -> int:
        """How many bytes of answers may come before they are looked at."""
        return int(self.parser.least_bytes(len(self.in_flight_requests) - _ENOUGH_REQUESTS))

    def _watch(self, patience: _Patience) -> None:
        """Check soon enough for this request."""
        at = patience.since + patience.seconds / _LOOKS
        if self._look_at is None or at < self._look_at:
            if self._look_at is not None:
                self.net.cancel(self._look)
            # A loop that is being closed takes no timers any more.
            self._look, self._look_at = self.net.call_at(at, self._look_after), at

    def _look_after(self) -> None:
        """Close the connection when a request is overdue; look again when the next one may be."""
        self._look_at = None
        if self.closed:
            return
        now = time.monotonic()
        if self.transport is not None:
            moved = self.transport.moved_bytes()
            if moved != self._moved:
                self._moved, self._moved_at = moved, now
        next_at = None
        # Those left once the connection is made wait for answers to others, as all do that are in flight.
        for _, future, patience in self._request_buffer if self._waits else ():
            if not future.is_done and now >= patience.since + patience.seconds:
                future.failure(Errors.KafkaTimeoutError(f"{self.server} was not connected in {patience.seconds:g} s"))
            elif not future.is_done:
                due = patience.since + patience.seconds
                next_at = due if next_at is None else min(due, next_at)
        for _, _, _, patience, _ in self.in_flight_requests:
            if not isinstance(patience, _Patience):
                continue  # of the connection's making, with a timer of its own
            due = max(patience.since, self._moved_at) + patience.seconds
            if now >= due:
                self.close(
                    Errors.RequestTimedOutError(
                        f"{self.server} neither took nor sent a byte for {patience.seconds:g} s"
                    )
                )
                return
            due = min(due, now + patience.seconds / _LOOKS)
            next_at = due if next_at is None else min(due, next_at)
        if next_at is not None:
            self._look, self._look_at = self.net.call_at(next_at, self._look_after), next_at

    def starts(self, server: str) -> None:
        """The connection to ``server`` is being made from now on."""
        self.server = server
        self.began = time.monotonic()

    def explained(self, error: Exception) -> Exception:
        """Why the connection could not be made, as an error whose text is one sentence."""
        return explained(self.server, self.step, time.monotonic() - self.began, self.tls, error)

    async def ask_versions(self, timeout_at: float) -> None:
        """Send the first request of a connection that was just made.

        Raises:
            KafkaError: it was not answered before ``timeout_at`` (monotonic seconds), or the connection ended.
        """
        await super()._get_api_versions(timeout_at)
        self._knows_versions = True

    async def _get_api_versions(self, timeout_at: float | None = None) -> None:
        if not self._knows_versions:
            await super()._get_api_versions(timeout_at)

    def take_over(self, greeted: FrameConnection) -> None:
        """Continue with the transport of another connection, whose first request was answered.

        Raises:
            KafkaConnectionError: either was closed meanwhile.
        """
        transport, greeted.transport = greeted.transport, None
        if transport is None:
            raise Errors.KafkaConnectionError("socket disconnected")
        try:
            self.connection_made(transport)
        except Exception:
            transport.close()
            raise
        self.broker_version_data = greeted.broker_version_data
        self._knows_versions = True

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        """Log in, for the first time or again (KIP-368). A refusal after which another attempt may succeed, because the
        login is changing, is a connection fault like others, so that callers try again."""
        self.step = "the login"
        limit = timeout_at or self._timeout_at()
        current = self._login
        if current is None:
            await self._log_in(limit)
            return
        if current.doubtful and not await self._beside(current.look_again, limit, f"{current.place} was not read"):
            why = current.unreadable or f"{current.place} has no other one yet"
            raise Errors.KafkaConnectionError(f"{self.server} has refused the login; {why}")
        login, arguments = current.arguments()
        self.config.update(arguments)
        tokens = arguments.get("sasl_oauth_token_provider")
        self._tokens = tokens if isinstance(tokens, KeptTokens) else None
        try:
            await self._log_in(limit)
        except Errors.SaslAuthenticationFailedError as error:
            again = current.refused(login)
            text = f"{fault_text(error)}; {current.unreadable}" if current.unreadable else fault_text(error)
            if again:
                raise Errors.KafkaConnectionError(f"{self.server} refused the login: {text}") from error
            raise Errors.SaslAuthenticationFailedError(text) from error
        current.taken(login)

    async def _log_in(self, timeout_at: float) -> None:
        if self._tokens is not None:
            self.config["sasl_oauth_token_provider"] = await self._token(timeout_at)
        if self._tickets is not None:
            self.config["sasl_oauth_token_provider"] = await self._ticket(timeout_at)
        await super()._sasl_authenticate(timeout_at)

    async def _token(self, timeout_at: float) -> FetchedToken:
        tokens = self._tokens
        assert tokens is not None
        seconds = max(timeout_at - time.monotonic(), 0.0)

        def fetch() -> FetchedToken:
            # A little less, so that the reason comes before the end of the wait.
            return FetchedToken(tokens.token(0.9 * seconds), tokens.extensions())

        return await self._beside(fetch, timeout_at, f"{tokens.source} returned no token")

    async def _ticket(self, timeout_at: float) -> Ticket:
        tickets = self._tickets
        assert tickets is not None
        host = self.transport.host or self.transport.getPeer()[0]
        return await self._beside(lambda: tickets.ticket(host), timeout_at, "Kerberos returned no ticket")

    async def _beside(self, fetch: Callable[[], T], timeout_at: float, nothing: str) -> T:
        """What a login needs, fetched in a thread: its server may be slow, or fail for a while."""
        seconds = max(timeout_at - time.monotonic(), 0.0)
        try:
            return await in_thread(self.net, fetch, timeout_at)
        except AccessDenied as error:
            raise Errors.SaslAuthenticationFailedError(str(error)) from error
        except SrmError as error:
            raise Errors.KafkaConnectionError(str(error)) from error
        except Errors.KafkaTimeoutError as error:
            raise Errors.KafkaConnectionError(f"{nothing} within {seconds:g} s") from error

    def connection_lost(self, exc: Exception | None) -> None:
        """As the library does; says in one sentence why the connection could not be made."""
        if exc is not None and self.initializing:
            exc = self.explained(exc)
        if self._look_at is not None:
            self._look_at = None
            self.net.cancel(self._look)
        super().connection_lost(exc)
