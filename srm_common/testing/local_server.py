"""Servers on this machine that a ``with`` block starts and ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


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
