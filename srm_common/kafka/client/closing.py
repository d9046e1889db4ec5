"""A base for objects that hold connections and close them at the end of their ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager around :meth:`close`."""

    @abstractmethod
    def close(self) -> None:
        """End all connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
