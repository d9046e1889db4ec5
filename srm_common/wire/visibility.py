"""Which batches of a read_committed fetch a consumer would see.

The rule of Kafka's ``CompletedFetch.nextFetchedRecord``: aborted transactions of a response become active at their
first offset and end at their abort marker; data of an active aborted producer, and every control batch, is invisible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from srm_common.wire.batch import CONTROL, TRANSACTIONAL, SourceBatch, control_type, verify

ABORT_MARKER = 0


def visible(batches: Iterable[SourceBatch], aborted: Sequence[tuple[int, int]]) -> Iterator[tuple[SourceBatch, bool]]:
    """Each batch with whether its records are data that a read_committed consumer sees.

    ``aborted`` is the response's list of (producer id, first offset), empty for read_uncommitted. It holds for one
    response only.

    Raises:
        CorruptBatch: the checksum of a batch that would be dropped is wrong, so that the bits that say so may be, too.
    """
    waiting = deque(sorted((first, producer) for producer, first in aborted))
    dropping: set[int] = set()
    for batch in batches:
        header = batch.header
        while waiting and waiting[0][0] < header.next_offset:
            dropping.add(waiting.popleft()[1])
        if header.attributes & CONTROL:
            verify(batch)
            if header.producer_id in dropping and control_type(batch) == ABORT_MARKER:
                dropping.discard(header.producer_id)
            yield batch, False
        elif header.attributes & TRANSACTIONAL and header.producer_id in dropping:
            verify(batch)
            yield batch, False
        else:
            # Emptied by compaction: nothing to see, but the position moves over it.
            yield batch, header.record_count > 0
