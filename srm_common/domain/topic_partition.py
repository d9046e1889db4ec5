"""One partition of a topic."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """``topic`` as its cluster names it. A tuple, so that it is a key, and has its order, wherever pairs were."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """As Kafka writes it: ``orders-0``."""
        return f"{self.topic}-{self.partition}"
