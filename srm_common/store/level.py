"""What a sample is of."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """The numbers are in the database."""

    FLOW = 0
    TOPIC = 1
    PARTITION = 2
