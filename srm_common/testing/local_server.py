"""Servers on this machine that a ``with`` block starts and ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from srm_common.domain.cluster import NO_AUTO_CREATION

# A librdkafka client of ours retries quickly while nodes start, and keeps quiet about it.
ADMIN_SETTINGS: Mapping[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
    "socket.timeout.ms": 10_000,
    "log_level": 0,
    **NO_AUTO_CREATION,
}


class LocalServer(ABC):
    """A context manager: starts on entering; what was started is ended where the start or the block fails, too."""

    @abstractmethod
    def start(self) -> Self:
        """Starts what does not run; returns when it answers."""

    @abstractmethod
    def close(self, *, failed: bool = False) -> None:
        """Stops, and removes a temporary directory; with ``failed`` its logs stay and are named."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close(failed=True)
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(failed=kind is not None)
