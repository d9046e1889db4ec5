"""Compiled loops that change bytes of a body in LZ4 without compressing it again: offset deltas are written over, so
that holes are closed, and all else stays (:mod:`srm_common.wire.reencoding.holes`).

To find repetitions is most of what compression costs, and the batch comes with those that its producer, or the log
cleaner, has found. A delta gets the new number in as many bytes as it had, so that nothing moves: varints may be longer
than they need to be, and Kafka's readers, librdkafka and others take them as they are (protobuf's encoding). What is
written over lies among the literals of the block, as a rule. Where a repetition reaches over such a byte, or takes its
bytes from there, it is written again in parts, with the byte that differs as a literal.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so. Format: lz4_Block_format.md.
"""

from __future__ import annotations

from srm_common.wire.reencoding.lz4_walk import (
    LEAST_MATCH,
    PLAIN_BLOCK,
    SUSPECT_BITS,
    SUSPECT_PLACE,
    any_marked,
    more_length,
)
from srm_common.wire.reencoding.machine_code import Bytes, byte, put, two_bytes
from srm_common.wire.reencoding.record_walk import Ints, compiled

#: A row of what :func:`patch_frame` reads: where a block begins and ends, whether it is not compressed, and where its
#: content ends.
BLOCK_AT, BLOCK_END, BLOCK_PLAIN, BLOCK_CONTENT = range(4)
BLOCK_FIELDS = 4
#: No repetition begins in the last bytes of a block (lz4_Block_format.md, end of block conditions).
_NO_MATCH_IN = 12


@compiled
def _put_length(out: Bytes, at: int, length: int) -> int:
    """What is left of a length of 15 and more; returns where it ends."""
    length -= 15
    while length >= 255:
        out[at] = 255
        at += 1
        length -= 255
    out[at] = length
    return at + 1


@compiled
def _put_literals(out: Bytes, at: int, content: Bytes, start: int, end: int, match: int) -> int:
    """A token with so many bytes of a repetition, less the four that each has, and the literals; returns where they
    end, -1 where there is no room for these and the repetition."""
    length = end - start
    if length + length // 255 + match // 255 + 8 > len(out) - at:
        return -1
    out[at] = min(length, 15) << 4 | min(match, 15)
    at += 1
    if length >= 15:
        at = _put_length(out, at, length)
    put(out, at, content, start, length)
    return at + length


@compiled
def _repeats(content: Bytes, at: int, end: int, distance: int) -> int:
    """Up to where the bytes from ``at`` on are those so far before them."""
    while at < end and content[at] == content[at - distance]:
        at += 1
    return at


@compiled
def _in_parts(
    out: Bytes, size: int, content: Bytes, start: int, match_at: int, match_end: int, distance: int, last: int
) -> tuple[int, int]:
    """Write the literals from ``start`` on and a repetition of which some bytes have changed; it may begin at ``last``
    and before.

    Returns where that ends in ``out`` (-1 where there is no room), and from where on literals are not written yet."""
    at = match_at
    while at < match_end and size >= 0:
        run = _repeats(content, at, match_end, distance)
        match = run - at - LEAST_MATCH
        if match >= 0 and at <= last:
            size = _put_literals(out, size, content, start, at, match)
            if size < 0:
                break
            out[size] = distance & 255
            out[size + 1] = distance >> 8
            size += 2
            if match >= 15:
                size = _put_length(out, size, match)
            start = run
        at = run + 1
    return size, start


@compiled
def _copied(data: Bytes, at: int, end: int, out: Bytes, size: int) -> int:
    """Copy bytes as they are; returns where they end in ``out``, -1 where there is no room."""
    if size < 0 or end - at > len(out) - size:
        return -1
    put(out, size, data, at, end - at)
    return size + end - at


@compiled
def _patched(
    data: Bytes, at: int, ahead: int, end: int, content: Bytes, marks: Ints, number: int, out: Bytes, size: int
) -> tuple[int, int, int]:
    """Copy what comes before each mark up to ``end``, and what is new there; literals are so far ``ahead`` of their
    place in ``content``.

    Returns where that ends in ``out`` (-1 where there is no room) and in ``data``, and the next mark."""
    while marks[number] < end:
        literal = marks[number] + ahead
        size = _copied(data, at, literal, out, size)
        if size < 0 or size == len(out):
            return -1, 0, number
        out[size] = content[marks[number]]
        size += 1
        at = literal + 1
        number += 1
    return size, at, number


@compiled
def patch_block(
    data: Bytes,
    at: int,
    end: int,
    content: Bytes,
    place: int,
    stop: int,
    marks: Ints,
    marked: Bytes,
    suspects: Ints,
    out: Bytes,
    size: int,
) -> int:
    """Write a block again so that it becomes ``content``.

    Args:
        data, at, end: the block as it is, which :func:`unlz4_block` has walked.
        content, place, stop: what it is to become, from ``place`` to ``stop``; it differs from what it is at ``marks``.
        marks: places in ``content``, in order, from the first one in this block on; a larger one than ``stop`` at last.
        marked: the same as bits.
        suspects: notes of the sequences that may have to change, and maybe of others, in order, from the first one in
            this block on; one beyond its end at last.
        out, size: where to write it.

    Returns where it ends in ``out``; -1 where there is no room.
    """
    row = number = 0
    copied = at
    # Where literals begin that are not written yet, -1 for none.
    pending = -1
    while True:
        if pending < 0:
            at, place = int(suspects[row]) >> SUSPECT_BITS, int(suspects[row]) & SUSPECT_PLACE
        if at >= end:
            break
        while suspects[row] >> SUSPECT_BITS <= at:
            row += 1
        sequence = at
        token = byte(data, at)
        at += 1
        length = token >> 4
        if length == 15:
            more, at = more_length(data, at, end)
            length += more
        literals = at
        at += length
        match_at = match_end = place + length
        distance = 0
        if at < end:
            distance = two_bytes(data, at)
            at += 2
            match = (token & 15) + LEAST_MATCH
            if match == 15 + LEAST_MATCH:
                more, at = more_length(data, at, end)
                match += more
            match_end += match
        repeated = match_at - distance
        other = any_marked(marked, match_at, match_end) or any_marked(marked, repeated, match_end - distance)
        while marks[number] < place:
            number += 1
        if pending >= 0 or (other and _repeats(content, match_at, match_end, distance) < match_end):
            size = _copied(data, copied, sequence, out, size)
            copied = at
            start = place if pending < 0 else pending
            size, start = _in_parts(out, size, content, start, match_at, match_end, distance, stop - _NO_MATCH_IN)
            pending = start if start < match_end or at == end else -1
        elif marks[number] < match_at:
            size, copied, number = _patched(data, copied, literals - place, match_at, content, marks, number, out, size)
        if size < 0:
            return -1
        place = match_end
    if pending >= 0:
        return _put_literals(out, size, content, pending, stop, 0)
    return _copied(data, copied, end, out, size)


@compiled
def patch_frame(
    data: Bytes, blocks: Ints, used: int, content: Bytes, marks: Ints, marked: Bytes, suspects: Ints, out: Bytes
) -> int:
    """Write a frame again, block by block, as :func:`patch_block` does.

    Args:
        data, blocks, used: the frame, and a row for each of its ``used`` blocks, see :data:`BLOCK_AT`.
        marks: places in ``content``; one more, beyond the content, stands behind them.
        marked: the same as bits.
        suspects: as for a block; one more, beyond the frame, stands behind them.

    Returns its size, or -1 where there is no room.
    """
    if used == 0 or blocks[0, BLOCK_AT] > len(out):
        return -1
    size = int(blocks[0, BLOCK_AT]) - 4
    put(out, 0, data, 0, size)
    place = first = row = 0
    for block in range(used):
        at = int(blocks[block, BLOCK_AT])
        end = int(blocks[block, BLOCK_END])
        stop = int(blocks[block, BLOCK_CONTENT])
        if len(out) - size < 8:
            return -1
        start = size + 4
        plain = blocks[block, BLOCK_PLAIN] != 0
        if not plain:
            size = patch_block(data, at, end, content, place, stop, marks[first:], marked, suspects[row:], out, start)
            if size < 0:
                return -1
            plain = size - start >= stop - place
        if plain:
            if stop - place > len(out) - start:
                return -1
            put(out, start, content, place, stop - place)
            size = start + stop - place
        length = size - start
        if plain:
            length |= PLAIN_BLOCK
        for number in range(4):
            out[start - 4 + number] = length >> 8 * number & 255
        while marks[first] < stop:
            first += 1
        while suspects[row] >> SUSPECT_BITS < end:
            row += 1
        place = stop
    if len(out) - size < 4:
        return -1
    out[size : size + 4] = 0
    return size + 4
