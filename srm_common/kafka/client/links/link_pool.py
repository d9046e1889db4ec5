"""Idle connections of one cluster, kept for the next link."""

from __future__ import annotations

import threading

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.connections.event_loop import EventLoop


class LinkPool(Closing):
    """What a task keeps of its links to a cluster between two uses.

    A link that is made with a pool (:class:`~srm_common.kafka.client.links.broker_link.BrokerLink`) takes connections
    from it and gives them back when it is closed. One link at a time has them: threads that ask at the same moment get
    connections of their own, and none waits for another. Only connections without a fault or an unanswered request come
    back; whoever takes them asks for the brokers and the leaders again, so nothing that a cluster said is remembered.

    Threads may share it. After :meth:`close` it can be used again; what was in use by then is closed by its user.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[ClusterSettings, EventLoop, FrameConnectionManager]] = []
        #: How often the pool was closed.
        self._closed = 0

    def take(self, settings: ClusterSettings) -> tuple[EventLoop, FrameConnectionManager] | None:
        """Idle connections that were made with these settings, None where there are none."""
        with self._lock:
            for number, (made_with, loop, manager) in enumerate(self._idle):
                if made_with == settings:
                    del self._idle[number]
                    return loop, manager
        return None

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
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed += 1
        for _, loop, manager in idle:
            manager.close()
            loop.close()
