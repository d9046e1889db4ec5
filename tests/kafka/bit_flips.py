"""Bits that flip between the verification of a batch and its sending, as in memory that is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.slots.blocks import Block
from srm_common.replication.slots.sending import Outgoing, Sending

#: A byte of the timestamps, which the checksum is of.
_FLIPPED = 30


class BitFlips:
    """While it is patched in, a bit of each batch flips that ``wanted`` is true of; the batches are noted in ``sent``,
    as partition and first upstream offset (None for the flow's own records)."""

    def __init__(self, patch: pytest.MonkeyPatch, wanted: Callable[[Outgoing], bool]) -> None:
        self.sent: list[tuple[TopicPartition, int | None]] = []
        post = Sending.post

        async def post_flipped(
            sending: Sending, leader: int, batches: Sequence[Outgoing], size: int, block: Block | None
        ) -> None:
            await post(
                sending, leader, [self._flipped(batch) if wanted(batch) else batch for batch in batches], size, block
            )

        patch.setattr(Sending, "post", post_flipped)

    def _flipped(self, batch: Outgoing) -> Outgoing:
        self.sent.append((batch.partition, first_offset(batch)))
        header = bytearray(batch.header)
        header[_FLIPPED] ^= 0x20
        return batch._replace(header=bytes(header))


def first_offset(batch: Outgoing) -> int | None:
    """Upstream; None for records of the flow's own."""
    return None if batch.packed is None else batch.packed.runs[0][0]
