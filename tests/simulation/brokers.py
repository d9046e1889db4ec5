"""The fake cluster's brokers as hosts of a simulated network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from srm_common.testing.fake_cluster.connection import Connection, Timer
from srm_common.testing.fake_cluster.service import Handler, Service
from tests.simulation.network import Listener, Network

_PORT = 9092


class Brokers(Service):
    """The brokers ``10.0.<cluster>.<node>``; arguments as :class:`Service` has them."""

    def __init__(
        self,
        network: Network,
        cluster: int,
        nodes: range,
        handlers: Mapping[str, Handler],
        lock: threading.RLock,
        before: Callable[[], None],
    ) -> None:
        super().__init__(nodes, handlers, lock, before)
        self._network = network
        self._places = {node: (f"10.0.{cluster}.{node}", _PORT) for node in nodes}
        self._announced = False
        self._listeners = {node: Listener(lambda node=node: self._connection(node)) for node in nodes}  # type: ignore[misc]
        network.listeners |= {self._places[node]: listener for node, listener in self._listeners.items()}
        self._deferred: dict[Connection, None] = {}

    @property
    def places(self) -> dict[int, tuple[str, int]]:
        return dict(self._places)

    def start(self) -> None:
        self.come_back()

    def close(self) -> None:
        self._parked.clear()

    def come_back(self, node: int | None = None) -> None:
        for number, listener in self._listeners.items():
            if node in (None, number):
                listener.open = True
                self._open.add(number)

    def go_away(self, node: int | None = None) -> None:
        for number, listener in self._listeners.items():
            if node in (None, number):
                listener.open = False
                self._open.discard(number)
                for connection in list(self._connections[number]):
                    connection.abort()

    def freeze(self, node: int) -> None:
        """The broker's process is stopped; its kernel still takes connections and bytes."""
        self._listeners[node].frozen = True

    def thaw(self, node: int) -> None:
        self._listeners[node].frozen = False
        self._network.go_on()
        deferred, self._deferred = self._deferred, {}
        for connection in deferred:
            self._resume(connection)

    def wake(self) -> None:
        if self._parked and not self._announced:
            self._announced = True
            self._network.world.after(0.0, self._announce)

    def _announce(self) -> None:
        self._announced = False
        super()._announce()

    def _resume(self, connection: Connection) -> None:
        if any(listener.frozen and connection in self._connections[node] for node, listener in self._listeners.items()):
            self._deferred[connection] = None
            return
        super()._resume(connection)

    def _go_away_for(self, seconds: float | None) -> None:
        self.go_away()
        if seconds is not None:
            self._network.world.after(seconds, self.come_back)

    def _now(self) -> float:
        return self._network.world.now

    def later(self, seconds: float, work: Callable[[], None]) -> Timer:
        return self._network.world.after(seconds, work)
