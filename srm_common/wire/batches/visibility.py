"""Which batches of a Fetch response a read_committed consumer should see.

The marker of a transaction decides: what its producer wrote since its marker before is committed, or aborted. The list
of aborted transactions that comes with an answer, which is all that Kafka's ``CompletedFetch`` goes by, counts only
where the answer ends before the marker, and a reader must look up the marker first (``unproved``): the list may
lack transactions. A replica that catches up appends many of them at once, and ``ProducerStateManager.lastStableOffset``
passes over all of the producer whose transaction is being written into the index of aborted ones. So the index claims
that this one is the last before the next transaction of another producer, and responses that end before that one lack
those between them, for as long as the replica has the index, also as leader (Kafka 4.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL, SourceBatch, verify
from srm_common.wire.varints import read_varint

_ABORT, _COMMIT = 0, 1


def control_type(batch: SourceBatch) -> int:
    """0 for an abort marker, 1 for a commit marker, other values for other control records, -1 for none (compacted).

    A control record's key is version int16 and type int16; the batch is never compressed (Kafka ``ControlRecordType``).

    Raises:
        CorruptBatch: its record has no such key.
    """
    if not batch.header.record_count:
        return -1
    data = batch.data
    at = HEADER_SIZE
    try:
        _, at = read_varint(data, at)  # record length
        at += 1  # attributes
        _, at = read_varint(data, at)  # timestamp delta
        _, at = read_varint(data, at)  # offset delta
        length, at = read_varint(data, at)  # key length
        if length < 4 or at + 4 > len(data):
            raise IndexError
    except IndexError as error:
        raise CorruptBatch(f"the control batch at offset {batch.header.base_offset} has no readable key") from error
    return int.from_bytes(data[at + 2 : at + 4], "big", signed=True)


def fate(marker: SourceBatch) -> bool | None:
    """Whether a control batch says that its producer's transaction was aborted; None where compaction has emptied it,
    which it does when nothing is left of the transaction, and for control batches of another kind. Raises as
    :func:`control_type`."""
    kind = control_type(marker)
    return kind == _ABORT if kind in (_ABORT, _COMMIT) else None


class Visible:
    """The batches of an answer in log order.

    ``batches``: each with whether its records are data to be seen. ``unlisted``: producers with aborted data that the
    answer's list lacks. ``fault``: why the answer cannot be read any further.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[SourceBatch, bool]] = []
        self.unlisted: set[int] = set()
        self.fault: CorruptBatch | None = None
        #: Producer id -> places in ``batches`` of what it wrote since its last marker.
        self._undecided: dict[int, list[int]] = {}

    @property
    def unproved(self) -> dict[int, int]:
        """Producer id -> offset of its first batch that is seen only because the list does not name it, as its marker
        comes after the answer."""
        found: dict[int, int] = {}
        for producer, places in self._undecided.items():
            for place in places:
                batch, data = self.batches[place]
                if data:
                    found[producer] = batch.header.base_offset
                    break
        return found

    def decide(self, fates: Mapping[int, bool | None]) -> None:
        """The markers behind the answer were looked for. Raises as :meth:`add`.

        Args:
            fates: producer id -> whether its transaction was aborted; None where the list is all there is.
        """
        for producer, aborted in fates.items():
            self._decide(producer, aborted)

    def add(self, batches: Iterable[SourceBatch], aborted: Sequence[tuple[int, int]]) -> None:
        """Take in all batches; ``aborted`` is the answer's list of (producer id, first offset).

        Raises:
            CorruptBatch: the checksum of a batch that would be dropped is wrong, so that the bits that say so may be,
                too; or what follows cannot be split. What comes before is in ``batches``.
        """
        waiting = deque(sorted((first, producer) for producer, first in aborted))
        dropping: set[int] = set()
        found, undecided = self.batches, self._undecided
        for batch in batches:
            header = batch.header
            while waiting and waiting[0][0] < header.next_offset:
                dropping.add(waiting.popleft()[1])
            attributes = header.attributes
            # Emptied by compaction: nothing to see, but the position moves over it.
            data = header.record_count > 0
            if attributes & CONTROL:
                verify(batch)
                data = False
                aborted_there = fate(batch)
                self._decide(header.producer_id, aborted_there)
                if aborted_there is not None:
                    dropping.discard(header.producer_id)
            elif attributes & TRANSACTIONAL and data:
                producer = header.producer_id
                if producer in dropping:
                    verify(batch)
                    data = False
                if producer in undecided:
                    undecided[producer].append(len(found))
                else:
                    undecided[producer] = [len(found)]
            found.append((batch, data))

    def _decide(self, producer: int, aborted: bool | None) -> None:
        places = self._undecided.pop(producer, ())
        for place in places if aborted is not None else ():
            batch, data = self.batches[place]
            if aborted and data:
                self.unlisted.add(producer)
                try:
                    verify(batch)
                except CorruptBatch:
                    del self.batches[place:]
                    kept = {one: [at for at in ats if at < place] for one, ats in self._undecided.items()}
                    self._undecided = {one: ats for one, ats in kept.items() if ats}
                    raise
            self.batches[place] = (batch, not aborted)


def visible(batches: Iterable[SourceBatch], aborted: Sequence[tuple[int, int]] | None) -> Visible:
    """The batches of one answer, with what a consumer should see of them.

    ``aborted`` is the answer's list, which holds for it only; None for read_uncommitted, where all data is seen.
    """
    seen = Visible()
    try:
        if aborted is None:
            for batch in batches:
                header = batch.header
                if header.attributes & CONTROL:
                    verify(batch)
                seen.batches.append((batch, header.record_count > 0 and not header.attributes & CONTROL))
        else:
            seen.add(batches, aborted)
    except CorruptBatch as error:
        seen.fault = error
    return seen
