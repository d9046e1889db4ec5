"""Closes the holes of a batch of LZ4 without compressing it again, where :mod:`srm_common.wire.reencoding.lz4_patch`
can.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, Packed, SourceBatch, UpstreamRun
from srm_common.wire.batches.codec import LZ4, LZ4_BLOCK_CHECKSUM, LZ4_INDEPENDENT, lz4_blocks, unlz4_blocks
from srm_common.wire.batches.records import are_many
from srm_common.wire.reencoding.lz4_patch import GRANULE, patch_frame
from srm_common.wire.reencoding.machine_code import Bytes
from srm_common.wire.reencoding.record_walk import LEAST_RECORD, Ints, compiled, varint_at
from srm_common.wire.state.stored_runs import DenseRuns

#: Bytes of an offset delta at most.
MOST_DELTA = 5
#: Bytes of a run in the offset map at most.
_MOST_RUN = 20


@compiled
def number_in_place(
    content: Bytes, size: int, count: int, base_offset: int, last_delta: int, marks: Ints, runs: Ints
) -> tuple[int, int]:
    """Give the records of a body the numbers from 0 on as their offset deltas, each in as many bytes as it has.

    Args:
        content: the body, which is written over; ``size`` bytes of it.
        last_delta: the greatest offset delta by the batch's header.
        marks: gets the places of the bytes that have changed, in order; ``MOST_DELTA`` for each record.
        runs: gets a row of first offset and length for each dense run; as many rows as records.

    Returns the number of marks and of runs; -1 and 0 where a record cannot be read or is out of order, or a number
    takes more bytes than there are.
    """
    at = marked = used = 0
    run_next = base_offset
    for number in range(count):
        length, at = varint_at(content, at, size)
        if at < 0 or length < 1 or length > size - at:
            return -1, 0
        end = at + length
        _, delta_at = varint_at(content, at + 1, end)
        if delta_at < 0:
            return -1, 0
        delta, rest = varint_at(content, delta_at, end)
        if rest < 0 or rest - delta_at > MOST_DELTA:
            return -1, 0
        left = number << 1
        for place in range(delta_at, rest):
            byte = left & 127
            left >>= 7
            if place < rest - 1:
                byte |= 128
            if byte != content[place]:
                content[place] = byte
                marks[marked] = place
                marked += 1
        if left > 0:
            return -1, 0
        offset = base_offset + delta
        if offset < run_next or delta > last_delta:
            return -1, 0
        if offset > run_next or used == 0:
            runs[used, 0] = offset
            runs[used, 1] = 0
            used += 1
        runs[used - 1, 1] += 1
        run_next = offset + 1
        at = end
    return (marked, used) if at == size else (-1, 0)


@compiled
def write_between(runs: Ints, used: int, out: Bytes) -> int:
    """Write the runs but the first and the last one as the offset map has them: the gap before each, and its length
    times four, as varints. Returns their size."""
    size = 0
    for row in range(1, used - 1):
        for part in range(2):
            value = runs[row, 1] << 2 if part else runs[row, 0] - runs[row - 1, 0] - runs[row - 1, 1]
            while value > 127:
                out[size] = value & 127 | 128
                size += 1
                value >>= 7
            out[size] = value
            size += 1
    return size


class _Room(threading.local):
    """What a thread writes to, batch by batch: new pages would cost as much as what is written to them."""

    def __init__(self) -> None:
        self.content = self.near = self.out = self.between = np.zeros(0, np.uint8)
        self.marks = np.empty(0, np.int64)
        self.runs = np.empty((0, 2), np.int64)

    def make(self, content: int, out: int, records: int) -> None:
        """Room for so many bytes and records at least."""
        if len(self.content) < content:
            self.content = np.empty(_power(content), np.uint8)
            self.near = np.zeros(len(self.content) // GRANULE + 1, np.uint8)
        if len(self.out) < out:
            self.out = np.empty(_power(out), np.uint8)
        if len(self.runs) < records:
            records = _power(records)
            self.runs = np.empty((records, 2), np.int64)
            self.marks = np.empty(records * MOST_DELTA + 1, np.int64)
            self.between = np.empty(records * _MOST_RUN, np.uint8)


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


_room = _Room()
#: Larger bodies are left to the libraries, so that no thread holds more than some 10 MB.
_MOST_CONTENT = 4 << 20
_BEYOND = (1 << 63) - 1


def close_holes(batch: SourceBatch) -> Packed | None:
    """A batch of magic 2, whose checksum is right and all of which is wanted, without its holes; None where another way
    has to be gone: another codec, a time of appending, another frame than producers and brokers write, a body that
    cannot be walked."""
    header, data = batch
    count = header.record_count
    body = data[HEADER_SIZE:]
    if header.attributes & (CODEC_MASK | LOG_APPEND_TIME) != LZ4:
        return None
    found = lz4_blocks(body)
    if not found or body[4] & (LZ4_BLOCK_CHECKSUM | LZ4_INDEPENDENT) != LZ4_INDEPENDENT:
        return None
    room = _room
    most = sum([most for _, _, _, most in found])
    if most > _MOST_CONTENT or not 0 < count * LEAST_RECORD <= most:
        return None
    room.make(most, len(body) + len(body) // 2 + 1024, count)
    ends = unlz4_blocks(body, found, room.content.data)
    if ends is None:
        return None
    content, marks, runs = room.content, room.marks, room.runs
    marked, used = number_in_place(content, ends[-1], count, header.base_offset, header.last_offset_delta, marks, runs)
    if marked < 0:
        return None
    if marked:
        marks[marked] = _BEYOND
        blocks = np.array([(at, end, plain, to) for (at, end, plain, _), to in zip(found, ends, strict=True)], np.int64)
        size = patch_frame(np.frombuffer(body, np.uint8), blocks, content, marks, marked, room.near, room.out)
        if size < 0:
            return None
        written = room.out[:size].tobytes()
    else:
        written = bytes(body)
    return Packed(
        LZ4,
        header.base_timestamp,
        header.max_timestamp,
        count,
        written,
        _runs_of(runs, used, count, len(written)),
        header.next_offset,
        True,
    )


def _runs_of(runs: Ints, used: int, count: int, size: int) -> Sequence[UpstreamRun]:
    """The first ``used`` runs, as the map of a batch of ``size`` bytes keeps them."""
    first, first_length = runs[0].tolist()
    if used == 1:
        return ((first, first_length, first_length),)
    (before, before_length), (last, last_length) = runs[used - 2 : used].tolist()
    if are_many(used, size):
        return ((first, last + last_length - first, count),)
    between = _room.between
    return DenseRuns(
        (first, first_length, first_length),
        between[: write_between(runs, used, between)].tobytes(),
        before + before_length,
        (last, last_length, last_length),
        used,
        count,
    )
