"""Idle connections, kept for the next link."""

from __future__ import annotations

import threading

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.newest_epochs import NewestEpochs
from srm_common.kafka.client.links.fetch_sizes import FetchSizes


class LinkPool(Closing):
    """The connections that a process keeps between two uses: a task those of its links to a cluster, and a worker those
    of its slot to both clusters.

    A link that is made with a pool (:class:`~srm_common.kafka.client.links.broker_link.BrokerLink`) takes connections
    from it and gives them back when it is closed. One link at a time has them: threads that ask at the same moment get
    connections of their own, and none waits for another. Only connections without a fault or an unanswered request come
    back; whoever takes them asks for the brokers and the leaders again. Of what a cluster said, only the newest epochs
    of leaders are remembered, so that no earlier leader is believed, and how much its links carry.

    Threads may share it. After :meth:`close` it can be used again; what was in use by then is closed by its user.

    Args:
        one_loop: whether all links share an event loop, as those of a slot do, which waits for both clusters at once.
            Such a pool belongs to one thread. While none of its links runs, nothing runs in the loop: a connection that
            the broker has closed is noticed by the next link.
    """

    def __init__(self, *, one_loop: bool = False) -> None:
        self.one_loop = one_loop
        self._loop: EventLoop | None = None
        self._lock = threading.Lock()
        self._idle: list[tuple[ClusterSettings, EventLoop, FrameConnectionManager]] = []
        #: By alias: a cluster that was cloned has the topic ids of the other one.
        self._newest_epochs: dict[str, NewestEpochs] = {}
        self._fetch_sizes: dict[str, FetchSizes] = {}
        #: How often the pool was closed.
        self._closed = 0

    def event_loop(self) -> EventLoop:
        """The event loop of a new link."""
        if not self.one_loop:
            return EventLoop()
        if self._loop is None:
            self._loop = EventLoop()
        return self._loop

    def newest_epochs(self, settings: ClusterSettings) -> NewestEpochs:
        """Of a cluster's leaders, as far as links have seen them."""
        with self._lock:
            return self._newest_epochs.setdefault(settings.alias, NewestEpochs())

    def fetch_sizes(self, settings: ClusterSettings) -> FetchSizes:
        """How much to ask a cluster's brokers for, as far as links have shown it; also if their connections failed."""
        with self._lock:
            return self._fetch_sizes.setdefault(settings.alias, FetchSizes())

    def take(self, settings: ClusterSettings) -> tuple[EventLoop, FrameConnectionManager] | None:
        """Idle connections that were made with these settings, None where there are none."""
        with self._lock:
            for number, (made_with, loop, manager) in enumerate(self._idle):
                if made_with == settings:
                    del self._idle[number]
                    return loop, manager
        return None

    def reuse(
        self, settings: ClusterSettings, client_id: str, request_timeout_ms: int
    ) -> tuple[EventLoop, FrameConnectionManager] | None:
        """Idle connections as :meth:`take` has them, for a link with this name and request timeout; None where there
        are none, or none that can be relied on."""
        idle = self.take(settings)
        if idle is None or idle[1].hand_on(client_id, request_timeout_ms):
            return idle
        self._end(*idle)
        return None

    def _end(self, loop: EventLoop, manager: FrameConnectionManager) -> None:
        manager.close()
        if not self.one_loop:
            loop.close()

    def put(self, settings: ClusterSettings, loop: EventLoop, manager: FrameConnectionManager, since: int) -> bool:
        """Keep connections; False where the pool was closed since :attr:`generation` was ``since``."""
        with self._lock:
            if since != self._closed:
                return False
            self._idle.append((settings, loop, manager))
            return True

    @property
    def generation(self) -> int:
        """Changes with each :meth:`close`."""
        return self._closed

    def close(self) -> None:
        """Close the idle connections, and the shared loop with all that is left to do in it."""
        with self._lock:
            self._closed += 1
        loop, self._loop = self._loop, None
        self.close_idle()
        if loop is not None:
            loop.close()

    def close_idle(self) -> None:
        """Close the connections that no link has now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, loop, manager in idle:
            self._end(loop, manager)
