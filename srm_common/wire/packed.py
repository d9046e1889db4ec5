"""A record batch ready to be stamped with our producer, and where its records came from."""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from srm_common.wire.batch import (
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    TRANSACTIONAL,
    Buffer,
    Checked,
    SourceBatch,
)

#: One run: (upstream offset, upstream length, records); dense when the last two are equal.
UpstreamRun = tuple[int, int, int]


class Packed(NamedTuple):
    """Body and header fields of a batch to produce; ``runs`` say which upstream offsets its records had.

    ``checked``: the source's checksum of an unopened body, which the new one is to carry on.
    """

    attributes: int
    base_timestamp: int
    max_timestamp: int
    record_count: int
    body: Buffer
    runs: tuple[UpstreamRun, ...]
    upstream_end: int
    reencoded: bool
    checked: Checked | None = None

    @property
    def size(self) -> int:
        """Bytes of the whole batch on the target."""
        return HEADER_SIZE + len(self.body)


def unopened(batch: SourceBatch) -> Packed:
    """The batch as it is, which must have been verified; only its header will be written again."""
    header, data = batch
    return Packed(
        header.attributes & ~(TRANSACTIONAL | CONTROL | DELETE_HORIZON),
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
        data[HEADER_SIZE:],
        ((header.base_offset, header.record_count, header.record_count),),
        header.next_offset,
        False,
        Checked(header.crc, crc32c(data[CRC_START:HEADER_SIZE])),
    )
