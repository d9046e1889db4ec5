"""What a comparison takes of a batch of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class CopyBatch(NamedTuple):
    """A batch that counts. ``next_offset`` is behind its last offset; ``records`` are fewer than these where compaction
    has removed some. ``term`` is what it adds to a fingerprint, None where its checksum is wrong; ``producer`` its
    producer id and epoch; ``size`` in bytes. ``thinned``: the log cleaner has written it."""

    base_offset: int
    next_offset: int
    records: int
    term: int | None
    producer: tuple[int, int]
    size: int = 0
    thinned: bool = False


class BatchRow(NamedTuple):
    """Batches of one producer that follow one another without a hole, added up. ``digest`` and ``content`` are sums as
    :func:`~srm_common.domain.offsets.fingerprints.fingerprint_of` takes them; ``terms`` has the offset of each."""

    next_offset: int
    producer: tuple[int, int]
    size: int
    digest: int
    content: int
    terms: Mapping[int, int]
