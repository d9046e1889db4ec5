"""Closes the holes of a batch of LZ4 without compressing it again, where :mod:`srm_common.wire.reencoding.lz4_patch`
can.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, Packed, SourceBatch, UpstreamRun
from srm_common.wire.batches.codec import LZ4
from srm_common.wire.batches.records import are_many
from srm_common.wire.reencoding.lz4_patch import (
    BLOCK_AT,
    BLOCK_CONTENT,
    BLOCK_END,
    BLOCK_FIELDS,
    BLOCK_PLAIN,
    patch_frame,
)
from srm_common.wire.reencoding.lz4_walk import (
    ANYWHERE,
    FRAME_END,
    FRAME_FLAGS,
    FRAME_HEADER,
    FRAME_INDEPENDENT,
    FRAME_VERSION,
    LEAST_SEQUENCE,
    PLAIN_BLOCK,
    largest_block,
    little,
    unlz4_block,
)
from srm_common.wire.reencoding.machine_code import Bytes, put
from srm_common.wire.reencoding.record_walk import LEAST_RECORD, Ints, compiled, varint_at
from srm_common.wire.state.stored_runs import DenseRuns

_tuple = tuple.__new__  # as in srm_common/wire/batches/batch.py

#: Bytes of an offset delta at most.
MOST_DELTA = 5
#: Bytes of a record up to its offset delta at most: length, attributes, time delta, offset delta.
_MOST_HEAD = 10 + 1 + 10 + 10
#: Bytes of a run in the offset map at most.
MOST_RUN = 20
#: Larger bodies are left to the libraries, so that no thread holds more than some 10 MB.
_MOST_CONTENT, _MOST_BLOCKS = 4 << 20, 128


#: What :func:`number_records` goes on from: the place of the next record and its number, the offset that would follow
#: the last one without a hole, how many marks and runs there are.
_AT, _NUMBER, _NEXT, _MARKED, _RUNS = range(5)
_STATE = 5


@compiled
def number_records(
    content: Bytes,
    known: int,
    whole: bool,
    count: int,
    base_offset: int,
    last_delta: int,
    state: Ints,
    marks: Ints,
    marked: Bytes,
    runs: Ints,
) -> int:
    """Find what becomes of the offset deltas of the next records, which get the numbers from 0 on, each in as many
    bytes as it has.

    Args:
        content, known, whole: the body up to ``known``, and whether that is all of it. Records of which all up to the
            offset delta is known are numbered.
        count: of all records.
        last_delta: the greatest offset delta by the batch's header.
        state: see :data:`_AT`; zeros at first, and the base offset as the next one.
        marks: gets, for each byte that changes, its place times 256, and its new value, in order; ``MOST_DELTA`` for
            each record.
        marked: gets a bit for each of these places.
        runs: gets a row of first offset and length for each dense run; as many rows as records.

    Returns where the next record begins; -1 where a record cannot be read or is out of order, or a number takes more
    bytes than there are.
    """
    at, number, run_next, used = state[_AT], state[_NUMBER], state[_NEXT], state[_RUNS]
    while number < count and (whole or known - at >= _MOST_HEAD):
        length, at = varint_at(content, at, known)
        if at < 0 or not 1 <= length <= _MOST_CONTENT:
            return -1
        end = at + length
        if whole and end > known:
            return -1
        _, delta_at = varint_at(content, at + 1, end)
        if delta_at < 0:
            return -1
        delta, rest = varint_at(content, delta_at, end)
        if rest < 0 or rest - delta_at > MOST_DELTA:
            return -1
        left = number << 1
        for place in range(delta_at, rest):
            value = left & 127
            left >>= 7
            if place < rest - 1:
                value |= 128
            if value != content[place]:
                marks[state[_MARKED]] = place << 8 | value
                state[_MARKED] += 1
                marked[place >> 3] |= 1 << (place & 7)
        if left > 0:
            return -1
        offset = base_offset + delta
        if offset < run_next or delta > last_delta:
            return -1
        if offset > run_next or used == 0:
            runs[used, 0] = offset
            runs[used, 1] = 0
            used += 1
        runs[used - 1, 1] += 1
        run_next = offset + 1
        at = end
        number += 1
    if number == count and (at < known or (whole and at > known)):
        return -1
    state[_AT], state[_NUMBER], state[_NEXT], state[_RUNS] = at, number, run_next, used
    return int(at)


@compiled
def _unpack(
    data: Bytes,
    count: int,
    base_offset: int,
    last_delta: int,
    content: Bytes,
    state: Ints,
    marks: Ints,
    marked: Bytes,
    runs: Ints,
    suspects: Ints,
    blocks: Ints,
) -> tuple[int, int]:
    """Decompress a frame, and find what becomes of its records.

    Returns how many blocks and suspects there are; -1 for both where another way has to be gone."""
    end = len(data)
    largest = largest_block(data, 0, end)
    if largest < 0 or data[FRAME_FLAGS] != FRAME_VERSION | FRAME_INDEPENDENT:
        return -1, -1
    at = FRAME_HEADER
    place = used = suspected = 0
    expected = state[_AT]
    while end - at > FRAME_END:
        size = little(data, at)
        at += 4
        plain = size >= PLAIN_BLOCK
        size &= PLAIN_BLOCK - 1
        if used == len(blocks) or size > end - at - FRAME_END:
            return -1, -1
        start, stop = place, at + size
        blocks[used, BLOCK_AT] = at
        blocks[used, BLOCK_END] = stop
        blocks[used, BLOCK_PLAIN] = plain
        if plain:
            if size > largest or size > len(content) - place:
                return -1, -1
            put(content, place, data, at, size)
            place += size
            at = stop
        while at < stop:
            at, place, suspected = unlz4_block(
                data, at, stop, content, start, place, expected + _MOST_HEAD, expected, marked, suspects, suspected
            )
            if at < 0:
                return -1, -1
            if place - expected >= _MOST_HEAD:
                expected = number_records(
                    content, place, False, count, base_offset, last_delta, state, marks, marked, runs
                )
                if expected < 0:
                    return -1, -1
        if place - start > largest:
            return -1, -1
        blocks[used, BLOCK_CONTENT] = place
        used += 1
    if end - at != FRAME_END or little(data, at) != 0:
        return -1, -1
    if number_records(content, place, True, count, base_offset, last_delta, state, marks, marked, runs) != place:
        return -1, -1
    return used, suspected


@compiled
def number_frame(
    data: Bytes,
    count: int,
    base_offset: int,
    last_delta: int,
    content: Bytes,
    state: Ints,
    marks: Ints,
    marked: Bytes,
    runs: Ints,
    suspects: Ints,
    blocks: Ints,
    out: Bytes,
) -> tuple[int, int]:
    """Write a frame of ``count`` records again, in which their offset deltas are the numbers from 0 on.

    Args:
        data: the frame.
        base_offset, last_delta: by the batch's header.
        content, state, marks, marked, runs, suspects, blocks: room; ``marked`` is zeros, and so it is again afterwards.
        out: where to write it.

    Returns its size, 0 where it stays as it is, -1 where another way has to be gone; and the number of dense runs.
    """
    state[:] = 0
    state[_NEXT] = base_offset
    used, suspected = _unpack(
        data, count, base_offset, last_delta, content, state, marks, marked, runs, suspects, blocks
    )
    many = int(state[_MARKED])
    for number in range(many):
        place = marks[number] >> 8
        content[place] = marks[number] & 255
        marks[number] = place
    size = min(used, 0)
    if used >= 0 and many > 0:
        marks[many] = ANYWHERE
        suspects[suspected] = ANYWHERE
        size = patch_frame(data, blocks, used, content, marks, marked, suspects, out)
    for number in range(many):
        marked[marks[number] >> 3] = 0
    return size, int(state[_RUNS])


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


#: What :func:`number_batch` finds: the size of the frame and the number of runs, as :func:`number_frame` returns them;
#: the first run and the last one, and where the last but one ends; the size of those between.
SIZE, _USED, _FIRST, _FIRST_LENGTH, _LAST, _LAST_LENGTH, _BEFORE_LAST, BETWEEN = range(8)
FOUND = 8


@compiled
def number_batch(
    data: Bytes,
    count: int,
    base_offset: int,
    last_delta: int,
    content: Bytes,
    state: Ints,
    marks: Ints,
    marked: Bytes,
    runs: Ints,
    suspects: Ints,
    blocks: Ints,
    out: Bytes,
    between: Bytes,
    found: Ints,
) -> None:
    """As :func:`number_frame`, and :func:`write_between` of what it finds: each call from Python costs as much as ten
    records.

    Args:
        between: gets the runs between the first and the last one.
        found: gets what :data:`SIZE` says.
    """
    size, used = number_frame(
        data, count, base_offset, last_delta, content, state, marks, marked, runs, suspects, blocks, out
    )
    found[SIZE], found[_USED], found[BETWEEN] = size, used, 0
    if size < 0:
        return
    found[_FIRST], found[_FIRST_LENGTH] = runs[0, 0], runs[0, 1]
    found[_LAST], found[_LAST_LENGTH] = runs[used - 1, 0], runs[used - 1, 1]
    if used > 1:
        found[_BEFORE_LAST] = runs[used - 2, 0] + runs[used - 2, 1]
        found[BETWEEN] = write_between(runs, used, between)


_Arguments = tuple[Bytes, Ints, Ints, Bytes, Ints, Ints, Ints, Bytes, Bytes, Ints]


class _Room(threading.local):
    """What a thread writes to, batch by batch: new pages would cost as much as what is written to them."""

    def __init__(self) -> None:
        # Pages that are not written to cost nothing.
        self.content = np.empty(_MOST_CONTENT, np.uint8)
        self.marked = np.zeros((_MOST_CONTENT >> 3) + 8, np.uint8)
        self.state = np.empty(_STATE, np.int64)
        self.blocks = np.empty((_MOST_BLOCKS, BLOCK_FIELDS), np.int64)
        self.found = np.empty(FOUND, np.int64)
        self.body = self.records = 0
        self._make(1 << 16, 1 << 8)

    def _make(self, body: int, records: int) -> None:
        self.body, self.records = max(body, self.body), max(records, self.records)
        records = self.records
        #: As :func:`number_batch` takes them.
        self.arguments: _Arguments = (
            self.content,
            self.state,
            np.empty(records * MOST_DELTA + 1, np.int64),
            self.marked,
            np.empty((records, 2), np.int64),
            np.empty(self.body // LEAST_SEQUENCE + 2, np.int64),
            self.blocks,
            np.empty(self.body + self.body // 2 + 1024, np.uint8),
            np.empty(records * MOST_RUN, np.uint8),
            self.found,
        )

    def arguments_for(self, body: int, records: int) -> _Arguments:
        """Room for a body of so many bytes, and so many records."""
        if self.body < body or self.records < records:
            self._make(_power(body), _power(records))
        return self.arguments


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


ROOM = _Room()


def close_holes(batch: SourceBatch) -> Packed | None:
    """A batch of magic 2, whose checksum is right and all of which is wanted, without its holes; None where another way
    has to be gone: another codec, a time of appending, another frame than producers and brokers write, a body that
    cannot be walked."""
    (base_offset, _, _, _, _, attributes, last_delta, base_timestamp, max_timestamp, _, _, _, count) = batch.header
    body = batch.data[HEADER_SIZE:]
    if (
        attributes & (CODEC_MASK | LOG_APPEND_TIME) != LZ4
        or len(body) > _MOST_CONTENT
        or not 0 < count <= min(last_delta + 1, _MOST_CONTENT // LEAST_RECORD)
    ):
        return None
    arguments = ROOM.arguments_for(len(body), count)
    (_, _, _, _, _, _, _, out, written_runs, found) = arguments
    data = np.frombuffer(body, np.uint8)
    data.flags.writeable = False  # or the loop is compiled for both kinds
    number_batch(data, count, base_offset, last_delta, *arguments)
    numbers = found.tolist()
    size = numbers[SIZE]
    if size < 0:
        return None
    written = out[:size].tobytes() if size else bytes(body)
    runs = runs_of(numbers, count, len(written), written_runs[: numbers[BETWEEN]].tobytes())
    next_offset = base_offset + last_delta + 1
    return _tuple(Packed, (LZ4, base_timestamp, max_timestamp, count, written, runs, next_offset, True, None))


def runs_of(numbers: Sequence[int], count: int, size: int, between: bytes) -> Sequence[UpstreamRun]:
    """The runs of a batch of ``count`` records and ``size`` bytes as its map keeps them.

    Args:
        numbers: what :func:`number_batch` found.
        between: what it wrote.
    """
    _, used, first, first_length, last, last_length, before_last, *_ = numbers
    if used == 1:
        return ((first, first_length, first_length),)
    if are_many(used, size):
        return ((first, last + last_length - first, count),)
    return DenseRuns(
        (first, first_length, first_length), between, before_last, (last, last_length, last_length), used, count
    )
