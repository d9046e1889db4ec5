"""The clients of one cluster that a task shares for all its reads and writes there."""

from __future__ import annotations

import threading

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.links.shared_admin import SharedAdmin
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import WRITE_SECONDS, StateWriter


class ClusterClients:
    """One admin client of a cluster, created on first use, and one pool of links that its reader and writers share.
    Threads may share them. :meth:`close` closes them; later use creates them again.
    """

    def __init__(self, cluster: ClusterSettings) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        #: Keeps kafka-python's connections between two uses.
        self.links = LinkPool()
        self._admin: SharedAdmin | None = None
        self._reader: StateReader | None = None
        self._writers: dict[tuple[bool, float], StateWriter] = {}

    @property
    def admin(self) -> SharedAdmin:
        """For every adapter that takes an admin client."""
        with self._lock:
            if self._admin is None:
                self._admin = SharedAdmin(self.cluster, pool=self.links)
            return self._admin

    @property
    def reader(self) -> StateReader:
        """Reads what is committed, with a command's patience; see :meth:`StateReader.with_patience`."""
        with self._lock:
            if self._reader is None:
                self._reader = StateReader(self.cluster, pool=self.links)
            return self._reader

    def writer(self, *, repeats_matter: bool = True, timeout_seconds: float | None = None) -> StateWriter:
        """A :class:`StateWriter` with these settings; an idempotent one is used where repeats do not matter, too.

        Args:
            timeout_seconds: how long the cluster may take to confirm a write; by default 30 s.
        """
        seconds = WRITE_SECONDS if timeout_seconds is None else timeout_seconds
        with self._lock:
            writer = self._writers.get((True, seconds))
            if writer is None:
                key = (repeats_matter, seconds)
                writer = self._writers.get(key)
                if writer is None:
                    writer = StateWriter(
                        self.cluster, timeout_seconds=seconds, repeats_matter=repeats_matter, pool=self.links
                    )
                    self._writers[key] = writer
            return writer

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._admin = self._reader = None
            self._writers.clear()
        self.links.close()
