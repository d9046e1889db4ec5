"""Where a consumer group goes on reading a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic, as the topic is named on the cluster that is asked."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """``offset`` is the next record to read here, ``metadata`` what the group noted with its commit.

    ``upstream_offset`` is what it had committed at the source when the checkpoint was written, which was at
    ``written_ms`` (epoch milliseconds).
    """

    offset: int
    metadata: str
    upstream_offset: int
    written_ms: int
