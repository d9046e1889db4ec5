"""Closes the holes of several batches in one call, for batches of an answer that lie one behind the other.

Between two batches Python would do a hundred things, with all that the loop has pushed out of the processor's caches.
Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so. The loop stops before whatever is
unusual, which :mod:`srm_common.wire.reencoding.merging` looks at.
"""

from __future__ import annotations

import threading

import numpy as np

from srm_common.wire.batches.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    Checked,
    Packed,
)
from srm_common.wire.batches.codec import LZ4
from srm_common.wire.reencoding.batch_walk import big, checksum
from srm_common.wire.reencoding.holes import BETWEEN, FOUND, MOST_RUN, ROOM, SIZE, number_batch, runs_of
from srm_common.wire.reencoding.lz4_walk import LEAST_SEQUENCE
from srm_common.wire.reencoding.machine_code import Bytes, put
from srm_common.wire.reencoding.record_walk import Ints, compiled
from srm_common.wire.reencoding.small_batches import AFTER, END, FIRST, RECORDS, START, SmallBatches

#: A row ends with the batch that brings it to so many bytes: more would only take memory until it is acknowledged.
_ENOUGH_BYTES, _MOST_BATCHES = 128 << 10, 64
#: Columns behind those of :data:`~srm_common.wire.reencoding.holes.FOUND`: what the batch's header says, and the
#: checksum of the new body.
_BASE_TIME, _MAX_TIME, _COUNT, _NEXT, _CRC = range(FOUND, FOUND + 5)
_FIELDS = FOUND + 5

_tuple = tuple.__new__  # as in srm_common/wire/batches/batch.py


@compiled
def close_batches(
    data: Bytes,
    rows: Ints,
    first_offset: int,
    stop: int,
    most: int,
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
) -> int:
    """Write batches again as :func:`~srm_common.wire.reencoding.holes.number_batch` does, one behind the other.

    Args:
        data, rows: the answer, and a row for each batch in it.
        first_offset, stop: wanted offsets; the last one exclusive.
        most: bytes that a batch may have, its header included.
        content, state, marks, marked, runs, suspects, blocks: room, as there.
        out: gets the bodies.
        between: gets the runs of each.
        found: gets a row for each.

    Returns how many batches were written: up to ``_ENOUGH_BYTES``, and up to the first that has no holes, is in another
    codec, reaches over the wanted offsets, is damaged, too large, or has to go another way.
    """
    taken = place = noted = 0
    while taken < len(rows) and taken < len(found) and place < _ENOUGH_BYTES:
        at = int(rows[taken, START])
        end = int(rows[taken, END])
        body = at + HEADER_SIZE
        offset = int(rows[taken, FIRST])
        following = int(rows[taken, AFTER])
        count = int(rows[taken, RECORDS])
        if (
            big(data, at + CRC_START, 2) & (CODEC_MASK | LOG_APPEND_TIME) != LZ4
            or offset < first_offset
            or following > stop
            or count >= following - offset
            or count > len(runs)
            or (end - body) // LEAST_SEQUENCE + 2 > len(suspects)
            or count * MOST_RUN > len(between) - noted
            or checksum(data, at + CRC_START, end) != big(data, at + CRC_START - 4, 4)
        ):
            break
        number_batch(
            data[body:end],
            count,
            offset,
            following - offset - 1,
            content,
            state,
            marks,
            marked,
            runs,
            suspects,
            blocks,
            out[place:],
            between[noted:],
            found[taken],
        )
        size = int(found[taken, SIZE])
        if size < 0:
            break
        if size == 0:
            size = end - body
            if size > len(out) - place:
                break
            put(out, place, data, body, size)
            found[taken, SIZE] = size
        if HEADER_SIZE + size > most:
            break
        found[taken, _BASE_TIME] = big(data, at + 27, 8)
        found[taken, _MAX_TIME] = big(data, at + 35, 8)
        found[taken, _COUNT] = count
        found[taken, _NEXT] = following
        found[taken, _CRC] = checksum(out, place, place + size)
        place += size
        noted += int(found[taken, BETWEEN])
        taken += 1
    return taken


class _Room(threading.local):
    """What a thread writes rows to."""

    def __init__(self) -> None:
        self.out = np.empty(3 * _ENOUGH_BYTES, np.uint8)
        self.between = np.empty(_ENOUGH_BYTES, np.uint8)
        self.found = np.empty((_MOST_BATCHES, _FIELDS), np.int64)


_room = _Room()


def close_row(
    batches: SmallBatches, start: int, first_offset: int, end_offset: int, max_message_bytes: int
) -> list[Packed]:
    """Batches from the one of the number ``start`` on without their holes, checksums verified; none where the first one
    has to go another way."""
    room = _room
    data = np.frombuffer(batches.records, np.uint8)
    data.flags.writeable = False  # or the loop is compiled for both kinds
    taken = close_batches(
        data,
        batches.numbers[start:],
        first_offset,
        end_offset,
        max_message_bytes,
        *ROOM.arguments[:7],
        room.out,
        room.between,
        room.found,
    )
    if not taken:
        return []
    found = room.found[:taken].tolist()
    written = memoryview(room.out[: sum([one[SIZE] for one in found])].tobytes())
    between = room.between[: sum([one[BETWEEN] for one in found])].tobytes()
    packed = []
    place = noted = 0
    for one in found:
        size, count = one[SIZE], one[_COUNT]
        body_bytes = written[place : place + size]
        runs = runs_of(one, count, size, between[noted : noted + one[BETWEEN]])
        checked = _tuple(Checked, (one[_CRC], 0))
        packed.append(
            _tuple(Packed, (LZ4, one[_BASE_TIME], one[_MAX_TIME], count, body_bytes, runs, one[_NEXT], True, checked))
        )
        place += size
        noted += one[BETWEEN]
    return packed
