"""What is wrong with a flow's transforms, and what becomes of records that they cannot handle (KIP-298)."""

from __future__ import annotations

from dataclasses import dataclass


class TransformFault(ValueError):
    """``key`` (without a level's prefix) cannot be carried out; the text is what follows its name in a sentence."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


#: Connect's prefix for what it says of a record in the dead letter queue (``DeadLetterQueueReporter``).
CONTEXT_HEADERS = "__connect.errors."


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Where failed records go, on the target. ``max_message_bytes`` is the largest batch that it takes;
    ``context_headers``: whether they get headers that say where they come from and why they failed."""

    name: str
    partitions: int
    max_message_bytes: int
    context_headers: bool = False


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """``tolerate``: a failed record is left out, and the partition goes on; without, it stops there. ``log``: each is
    logged. ``dead_letters``: where they go; None where they are dropped."""

    tolerate: bool = False
    log: bool = False
    dead_letters: DeadLetterTopic | None = None
