"""Serves the requests to a cluster's nodes, over any transport. Like brokers, it processes the requests of a connection
one after another.
"""

from __future__ import annotations

import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from srm_common.errors import LocalKafkaError
from srm_common.testing.fake_cluster.connection import Connection, Pause, Timer
from srm_common.testing.fake_cluster.faults import Faults
from srm_common.testing.fake_cluster.messages import Answer, Call, Protocol, UnknownApi


@dataclass(frozen=True, slots=True)
class Waiting:
    """An answer that has to wait for something: ``attempt(False)`` is tried at every change until it is not None, and
    after ``seconds`` it is ``attempt(True)``."""

    seconds: float
    attempt: Callable[[bool], Answer | None]


Handler = Callable[[Call], "Answer | Waiting | None"]


class Clock:
    """A cluster's clock, in ms since 1970: the machine's, until a test sets it."""

    def __init__(self) -> None:
        self._set_ms: int | None = None

    def now_ms(self) -> int:
        return int(time.time() * 1000) if self._set_ms is None else self._set_ms

    def set(self, ms: int) -> None:
        """Stop the clock at the current time."""
        self._set_ms = ms

    def advance(self, seconds: float) -> None:
        """Advance the clock, which is stopped from then on."""
        self._set_ms = self.now_ms() + int(seconds * 1000)


class Service(ABC):
    """The nodes of a cluster.

    Args:
        nodes: their numbers.
        handlers: API -> what answers it, called under ``lock``; None is no answer at all.
        before: called before each request, under ``lock``.
    """

    def __init__(
        self,
        nodes: range,
        handlers: Mapping[str, Handler],
        lock: threading.RLock,
        before: Callable[[], None],
    ) -> None:
        self._handlers, self._lock, self._before = handlers, lock, before
        #: The versions that are offered.
        self.protocol = Protocol(set(), {})
        self.faults = Faults(self._go_away_for, self.wake)
        self.requests: list[Call] = []
        #: Why the fake could not answer: APIs it does not know, and faults of its own.
        self.failures: list[str] = []
        #: Connections whose request waits for a change.
        self._parked: dict[Connection, None] = {}
        #: Nodes that take connections, from just before their listener is there.
        self._open: set[int] = set()
        #: Connections that were taken, by node, since the requests were last forgotten.
        self.taken: Counter[int] = Counter()
        self._connections: dict[int, dict[Connection, None]] = {node: {} for node in nodes}

    # ---- the wire

    @property
    @abstractmethod
    def places(self) -> dict[int, tuple[str, int]]:
        """Node -> host and port."""

    @abstractmethod
    def start(self) -> None:
        """Takes connections from now on."""

    @abstractmethod
    def close(self) -> None:
        """Ends connections and listeners."""

    @abstractmethod
    def come_back(self, node: int | None = None) -> None:
        """Takes connections to a node, or to all, again."""

    @abstractmethod
    def go_away(self, node: int | None = None) -> None:
        """Ends the connections of a node, or of all, and takes no new ones."""

    @abstractmethod
    def wake(self) -> None:
        """Something changed that an answer may wait for."""

    @abstractmethod
    def _go_away_for(self, seconds: float | None) -> None:
        """All nodes, from within a request; without ``seconds`` for good."""

    @abstractmethod
    def _now(self) -> float:
        """Seconds, by which answers wait."""

    @abstractmethod
    def later(self, seconds: float, work: Callable[[], None]) -> Timer:
        """Calls ``work`` after so long."""

    # ---- for the wire

    def listening(self, node: int) -> bool:
        return node in self._open

    def _connection(self, node: int) -> Connection:
        """A new connection to a node."""
        return Connection(
            lambda frame, client: self._respond(node, frame, client),
            self._park,
            lambda connection: self._connected(node, connection),
            lambda connection: self._lost(node, connection),
        )

    def _announce(self) -> None:
        for connection in list(self._parked):
            self._resume(connection)

    # ---- inside

    def _park(self, connection: Connection, pause: Pause) -> None:
        if pause.until_change:
            self._parked[connection] = None
        if pause.seconds is not None:
            connection.timer = self.later(pause.seconds, lambda: self._resume(connection))

    def _resume(self, connection: Connection) -> None:
        self._parked.pop(connection, None)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        connection.go_on()

    def _lost(self, node: int, connection: Connection) -> None:
        self._connections[node].pop(connection, None)

    def _connected(self, node: int, connection: Connection) -> None:
        self._connections[node][connection] = None
        self.taken[node] += 1
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
        call.refusal, call.refusal_after = self.faults.refusal, self.faults.refusal_after
        self.requests.append(call)
        seconds = self.faults.delay(call.api)
        if seconds:
            yield Pause(seconds, until_change=False)
        yield from self._silence(call.api)
        if self.faults.loses(call.api):
            connection.abort()
            return False
        try:
            answer = yield from self._answer(call)
            throttled = self.faults.throttle(call.api)
            if throttled and answer is not None:
                answer = _throttled(call.api, answer, throttled)
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
        if throttled:
            # The channel is muted for this time, whatever the client does (KIP-219).
            yield Pause(throttled, until_change=False)
        return True

    def _answer(self, call: Call) -> Generator[Pause, None, Answer | None]:
        with self._lock:
            self._before()
            waiting = self._handlers[call.api](call)
        if not isinstance(waiting, Waiting):
            return waiting
        deadline = self._now() + waiting.seconds
        while True:
            with self._lock:
                answer = waiting.attempt(False)
            if answer is not None:
                return answer
            left = deadline - self._now()
            if left > 0:
                yield Pause(left, until_change=True)
                continue
            with self._lock:
                answer = waiting.attempt(True)
            assert answer is not None, f"{call.api} has no answer after its time"
            return answer

    def _silence(self, api: str) -> Generator[Pause, None, None]:
        while self.faults.silent(api):
            yield Pause(None, until_change=True)


def _throttled(api: str, answer: Answer, seconds: float) -> Answer:
    """As a broker answers a client whose quota is used up: produced records are stored, and a Fetch returns nothing."""
    if api == "Fetch":
        answer = {"error_code": 0, "session_id": 0, "responses": []}
    return answer | {"throttle_time_ms": int(seconds * 1000)}


def raise_failures(failures: list[str], name: str) -> None:
    """Raises LocalKafkaError with what the fake could not answer."""
    if failures:
        raise LocalKafkaError(f"{name}: " + "; ".join(dict.fromkeys(failures)))
