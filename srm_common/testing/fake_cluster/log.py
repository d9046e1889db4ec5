"""The log of one partition, as of a leader whose followers have replicated everything: offsets, leader epochs,
sequences of producers, transactions, missing offsets.

Rules: Kafka's ``UnifiedLog``, ``ProducerStateManager``, ``ProducerAppendInfo``, ``LeaderEpochFileCache``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from srm_common.testing.fake_cluster.messages import Refused
from srm_common.testing.fake_cluster.records import (
    Record,
    StoredBatch,
    batch_of,
    marker,
    records_of,
    stored,
    with_append_time,
)
from srm_common.wire.batches.batch import HEADER_SIZE, MAGIC, SourceBatch, parse_header, verify

OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE = 1, 2, 10
OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH, INVALID_RECORD = 45, 47, 87

#: How many batches of a producer the broker remembers for each partition (KIP-98).
_REMEMBERED = 5
_SEQUENCES = 1 << 31


class _Stored(NamedTuple):
    """A batch that a producer may send again."""

    first: int
    last: int
    base_offset: int


@dataclass
class ProducerState:
    """What a partition knows of one producer."""

    epoch: int
    batches: deque[_Stored] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    #: -1 where no data was written under this epoch.
    last_sequence: int = -1
    last_timestamp_ms: int = -1
    coordinator_epoch: int = 0
    #: Where its open transaction begins, -1 without one.
    open_since: int = -1


class Aborted(NamedTuple):
    """An aborted transaction: its offsets from the first record to its marker."""

    producer_id: int
    first: int
    last: int


class EpochStart(NamedTuple):
    epoch: int
    offset: int


class PartitionLog:
    """``start`` is the first offset, ``end`` the high watermark."""

    def __init__(self, *, epoch: int = 0) -> None:
        self.start = self.end = 0
        self.epoch = epoch
        self.epochs: list[EpochStart] = []
        self.batches: list[StoredBatch] = []
        self.producers: dict[int, ProducerState] = {}
        self.aborted: list[Aborted] = []
        #: Offsets before this one are kept in a remote store only (KIP-405).
        self.local_start = 0

    # ---- looking

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min(
            (producer.open_since for producer in self.producers.values() if producer.open_since >= 0), default=self.end
        )

    def records(self, *, committed: bool = True) -> list[Record]:
        """What a consumer of the log sees; without ``committed`` also records of open and aborted transactions."""
        end = self.stable if committed else self.end
        return [
            record
            for batch in self.batches
            if not batch.control and not (committed and self._aborted(batch))
            for record in records_of(batch)
            if self.start <= record.offset < end
        ]

    def fetch(self, offset: int, most_bytes: int, end: int, *, at_least_one: bool) -> bytes:
        """Batches from the one that holds ``offset`` on, up to the offset ``end``; the last may be cut short, unless it
        is the only one and ``at_least_one``.

        Raises:
            Refused: the offset is not in the log.
        """
        if not self.start <= offset <= self.end:
            raise Refused(OFFSET_OUT_OF_RANGE)
        out = bytearray()
        for batch in self.batches[self._index(offset) :]:
            if batch.header.base_offset >= end:
                break
            if not out and at_least_one:
                most_bytes = max(most_bytes, len(batch.data))
            out += batch.data[: most_bytes - len(out)]
            if len(out) >= most_bytes:
                break
        return bytes(out)

    def aborted_between(self, first: int, end: int) -> list[Aborted]:
        """Aborted transactions that reach into these offsets."""
        return [aborted for aborted in self.aborted if aborted.last >= first and aborted.first < end]

    def at_time(self, timestamp_ms: int, end: int) -> Record | None:
        """The first record at or after a time, before the offset ``end``."""
        for batch in self.batches:
            if batch.header.max_timestamp < timestamp_ms:
                continue
            for record in records_of(batch):
                if record.timestamp_ms >= timestamp_ms and self.start <= record.offset:
                    return record if record.offset < end else None
        return None

    def newest(self) -> Record | None:
        """The record with the highest timestamp, the first of them."""
        found: Record | None = None
        for batch in self.batches:
            for record in records_of(batch):
                if record.offset >= self.start and (found is None or record.timestamp_ms > found.timestamp_ms):
                    found = record
        return found

    def epoch_of(self, offset: int) -> int:
        """The leader epoch under which an offset was written."""
        return max((epoch.epoch for epoch in self.epochs if epoch.offset <= offset), default=self.epoch)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to this one, and where it ends; (-1, -1) if unknown."""
        if epoch == self.epoch:
            return epoch, self.end
        if not self.epochs or epoch > self.epochs[-1].epoch:
            return -1, -1
        older = [start for start in self.epochs if start.epoch <= epoch]
        newer = [start for start in self.epochs if start.epoch > epoch]
        if not older:
            return epoch, newer[0].offset
        return older[-1].epoch, newer[0].offset if newer else self.end

    # ---- writing

    def append(self, data: bytes, now_ms: int, *, append_time: bool = False, compacted: bool = False) -> StoredBatch:
        """Append a producer's batch, as a leader does after it has checked that the producer may.

        For a batch that is there already, returns where it is.

        Raises:
            Refused: what the broker would answer.
        """
        batch = self._checked(data)
        header = batch.header
        if compacted and any(record.key is None for record in records_of(batch)):
            raise Refused(INVALID_RECORD, "Compacted topic cannot accept message without key in topic partition")
        if header.producer_id >= 0:
            before = self._repeated(batch)
            if before is not None:
                return batch._replace(header=header._replace(base_offset=before))
        if append_time:
            data = with_append_time(data, now_ms)
        return self._put(stored(data, self.end, self.epoch))

    def end_transaction(self, producer_id: int, epoch: int, *, committed: bool, now_ms: int) -> None:
        """Append a marker."""
        state = self.producers.setdefault(producer_id, ProducerState(epoch))
        self._put(stored(marker(committed, producer_id, epoch, now_ms, state.coordinator_epoch), self.end, self.epoch))
        if not committed and state.open_since >= 0:
            self.aborted.append(Aborted(producer_id, state.open_since, self.end - 1))
        state.open_since = -1

    def delete_before(self, offset: int) -> None:
        """Retention, or DeleteRecords: the log starts at ``offset`` from now on."""
        if offset > self.end:
            raise Refused(OFFSET_OUT_OF_RANGE)
        self.start = max(self.start, offset)
        self.local_start = max(self.local_start, self.start)
        self.batches = [batch for batch in self.batches if batch.header.next_offset > self.start]
        self.aborted = [aborted for aborted in self.aborted if aborted.last >= self.start]
        while len(self.epochs) > 1 and self.epochs[1].offset <= self.start:
            del self.epochs[0]
        if self.epochs and self.epochs[0].offset < self.start:
            self.epochs[0] = EpochStart(self.epochs[0].epoch, self.start)

    def elect(self, keep: int | None = None) -> None:
        """A new leader, under a new epoch, which has the log up to the offset ``keep`` only (default: all of it)."""
        self.epoch += 1
        if keep is not None:
            self.end = keep
            self.batches = [batch for batch in self.batches if batch.header.next_offset <= keep]
            self.aborted = [aborted for aborted in self.aborted if aborted.last < keep]
            self.epochs = [epoch for epoch in self.epochs if epoch.offset < keep]
            for state in self.producers.values():
                if state.open_since >= keep:
                    state.open_since = -1

    def compact(self, *, drop_tombstones: bool = False) -> None:
        """What the cleaner does to closed segments: of each key the last committed record stays, aborted records go.
        The last batch is the open segment and stays as it is, like everything from the last stable offset on."""
        stable = self.stable
        closed = [stored_batch for stored_batch in self.batches[:-1] if stored_batch.header.next_offset <= stable]
        last = {
            record.key: record.offset
            for batch in self.batches
            if not batch.control and not self._aborted(batch) and batch.header.next_offset <= stable
            for record in records_of(batch)
        }
        kept: list[StoredBatch] = []
        for batch in closed:
            if batch.control:
                kept.append(batch)
                continue
            records = [] if self._aborted(batch) else records_of(batch)
            left = [
                one for one in records if last[one.key] == one.offset and not (drop_tombstones and one.value is None)
            ]
            if len(left) == batch.header.record_count:
                kept.append(batch)
            elif left:
                kept.append(
                    stored(batch_of(left, like=batch.header), batch.header.base_offset, batch.header.leader_epoch)
                )
        self.batches = kept + self.batches[len(closed) :]

    # ---- inside

    def _index(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=lambda one: one.header.next_offset)

    def _aborted(self, batch: StoredBatch) -> bool:
        header = batch.header
        return batch.transactional and any(
            aborted.producer_id == header.producer_id and aborted.first <= header.base_offset <= aborted.last
            for aborted in self.aborted
        )

    @staticmethod
    def _checked(data: bytes) -> StoredBatch:
        if len(data) <= MAGIC:
            raise Refused(INVALID_RECORD, "an empty set of records")
        if data[MAGIC] != 2:
            raise Refused(INVALID_RECORD, f"a batch of magic {data[MAGIC]}")
        header = parse_header(data)
        if len(data) < HEADER_SIZE or header.size > len(data):
            raise Refused(INVALID_RECORD, "a batch is cut short")
        if header.size < len(data):
            raise Refused(INVALID_RECORD, "more than one batch in a request")
        batch = StoredBatch(header, data)
        try:
            verify(SourceBatch(header, memoryview(data)))
        except Exception as error:
            raise Refused(CORRUPT_MESSAGE, str(error)) from error
        if batch.control:
            raise Refused(INVALID_RECORD, "clients may not write control batches")
        if not header.dense:
            raise Refused(INVALID_RECORD, "the offsets of a batch have holes")
        return batch

    def _repeated(self, batch: StoredBatch) -> int | None:
        """The offset of a batch that is already there; None for one that may be appended. Raises Refused."""
        header = batch.header
        state = self.producers.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch < state.epoch:
            raise Refused(INVALID_PRODUCER_EPOCH, f"epoch {header.producer_epoch} is older than {state.epoch}")
        if header.producer_epoch > state.epoch:
            if header.base_sequence:
                raise Refused(OUT_OF_ORDER_SEQUENCE, f"sequence {header.base_sequence} begins a new epoch")
            return None
        last = (header.base_sequence + header.last_offset_delta) % _SEQUENCES
        for one in state.batches:
            if (one.first, one.last) == (header.base_sequence, last):
                return one.base_offset
        if state.last_sequence < 0:  # a marker is all that there is of this epoch
            if header.base_sequence:
                raise Refused(OUT_OF_ORDER_SEQUENCE, f"sequence {header.base_sequence} is the first of its epoch")
        elif header.base_sequence != (state.last_sequence + 1) % _SEQUENCES:
            raise Refused(OUT_OF_ORDER_SEQUENCE, f"sequence {header.base_sequence} follows {state.last_sequence}")
        return None

    def _put(self, batch: StoredBatch) -> StoredBatch:
        header = batch.header
        if not self.epochs or self.epochs[-1].epoch < header.leader_epoch:
            self.epochs.append(EpochStart(header.leader_epoch, header.base_offset))
        self.batches.append(batch)
        self.end = header.next_offset
        if header.producer_id >= 0:
            state = self.producers.get(header.producer_id)
            if state is None:
                state = self.producers[header.producer_id] = ProducerState(header.producer_epoch)
            if header.producer_epoch > state.epoch:
                state.epoch, state.last_sequence = header.producer_epoch, -1
                state.batches.clear()
            state.last_timestamp_ms = header.max_timestamp
            if not batch.control:
                state.last_sequence = (header.base_sequence + header.last_offset_delta) % _SEQUENCES
                state.batches.append(_Stored(header.base_sequence, state.last_sequence, header.base_offset))
                if batch.transactional and state.open_since < 0:
                    state.open_since = header.base_offset
        return batch

    def __iter__(self) -> Iterator[StoredBatch]:
        return iter(self.batches)
