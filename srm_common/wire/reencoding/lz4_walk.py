"""Compiled loops that decompress LZ4, for bodies so small that a call of the library costs more.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so. Formats: lz4_Frame_format.md,
lz4_Block_format.md.
"""

from __future__ import annotations

from srm_common.wire.reencoding.machine_code import (
    MARKED_AT_ONCE,
    byte,
    marked_bits,
    put,
    put_16,
    spill,
    two_bytes,
)
from srm_common.wire.reencoding.record_walk import Bytes, Ints, compiled

#: Of a frame: magic, flags, block size, checksum, then the length of the first block. Bit 31 of that says that the
#: block is not compressed.
_FRAME_MAGIC, FRAME_FLAGS, FRAME_HEADER, FRAME_END = 0x184D2204, 4, 7, 4
FRAME_VERSION, FRAME_INDEPENDENT, _FRAME_BLOCK_CHECKSUM, _FRAME_OTHER = 0x40, 0x20, 0x10, 0xCF
#: The third byte before the lengths: 4 to 7 in its upper half, for blocks of 64 KB, 256 KB, 1 MB and 4 MB at most.
_LEAST_BLOCK, _MOST_BLOCK, _BLOCK_OTHER = 0x40, 0x70, 0x8F
PLAIN_BLOCK = 1 << 31
#: Bytes that a repetition has, and that a sequence takes, at least.
LEAST_MATCH, LEAST_SEQUENCE = 4, 3
#: Of a usual sequence, at most: its literals, and its repetition, which are copied as so many bytes however short they
#: are; what is read of it, and what is written for it.
USUAL_LITERALS, _USUAL_MATCH = 14, 32
USUAL_READ, _USUAL_WRITTEN = 1 + 16 + 2, USUAL_LITERALS + _USUAL_MATCH
#: What :func:`unlz4_block` notes of a sequence: where it begins in the block, times this, and where its content does.
SUSPECT_BITS = 32
SUSPECT_PLACE = (1 << SUSPECT_BITS) - 1
#: Beyond all places.
ANYWHERE = (1 << 63) - 1


@compiled
def little(data: Bytes, at: int) -> int:
    """A little-endian number of 4 bytes without a sign."""
    return int(data[at]) | int(data[at + 1]) << 8 | int(data[at + 2]) << 16 | int(data[at + 3]) << 24


@compiled
def more_length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What a length of 15 has beyond that, and where it ends; -1 where the block ends before."""
    length = 0
    while at < end:
        more = byte(data, at)
        at += 1
        length += more
        if more < 255:
            return length, at
    return 0, -1


@compiled
def any_marked(marked: Bytes, start: int, end: int) -> bool:
    """Whether a byte from ``start`` to ``end`` (exclusive) is marked: each has a bit in ``marked``, which has eight
    bytes more."""
    while end - start > MARKED_AT_ONCE:
        if marked_bits(marked, start, MARKED_AT_ONCE) != 0:
            return True
        start += MARKED_AT_ONCE
    return start < end and marked_bits(marked, start, end - start) != 0


@compiled
def _unlz4_sequence(data: Bytes, at: int, end: int, out: Bytes, start: int, place: int) -> tuple[int, int, int, int]:
    """Decompress a sequence of any lengths. Returns where it ends in ``data``, where its literals end in ``out``, and
    the distance and the length of its repetition, 0 where it has none; -1 for the first where it is damaged or there is
    no room."""
    room = len(out)
    token = byte(data, at)
    at += 1
    length = token >> 4
    if length == 15:
        more, at = more_length(data, at, end)
        if at < 0:
            return -1, place, 0, 0
        length += more
    if length > end - at or length > room - place:
        return -1, place, 0, 0
    spill(out, place, data, at, length)
    place += length
    at += length
    if at == end:
        return at, place, 0, 0
    if end - at < 2:
        return -1, place, 0, 0
    distance = two_bytes(data, at)
    at += 2
    match = token & 15
    if match == 15:
        more, at = more_length(data, at, end)
        if at < 0:
            return -1, place, 0, 0
        match += more
    match += LEAST_MATCH
    # No block ends with a repetition.
    if distance == 0 or distance > place - start or match > room - place or at == end:
        return -1, place, 0, 0
    if match <= distance:
        spill(out, place, out, place - distance, match)
    else:
        for copied in range(place, place + match):
            out[copied] = out[copied - distance]
    return at, place, distance, match


@compiled
def unlz4_block(
    data: Bytes,
    at: int,
    end: int,
    out: Bytes,
    start: int,
    place: int,
    limit: int,
    sure: int,
    marked: Bytes | None,
    suspects: Ints | None,
    suspected: int,
) -> tuple[int, int, int]:
    """Decompress a block, or a part of it.

    Args:
        data, at, end: the rest of the block.
        out, start, place: where its content begins, and where that of the rest does.
        limit: stop after the first sequence whose content ends beyond this place.
        sure: up to there it is known which bytes of the content change.
        marked: a bit for each byte of ``out``: whether it is one of them; None where nothing changes.
        suspects, suspected: with ``marked``, gets a note (:data:`SUSPECT_BITS`) of each sequence that takes such a byte
            from before, and of each one that ends beyond ``sure``; and how many there are already.

    Returns where it stopped in ``data`` and in ``out``, and the number of suspects; -1 for all of them where the block
    is damaged or there is no room. Then something else may have been written behind ``place``.
    """
    room = len(out)
    if at >= end:
        return -1, -1, -1
    last, last_place = end - USUAL_READ, min(room - _USUAL_WRITTEN, limit)
    while at < end:
        while (last - at | last_place - place) >= 0:
            # Nearly all sequences are decompressed in here, without a branch that the processor could guess wrong.
            token = byte(data, at)
            length = token >> 4
            match = token & 15
            # One where the length of the repetition has another byte, which counts for nothing elsewhere.
            longer = match + 1 >> 4
            match += LEAST_MATCH + (byte(data, at + length + 3) & -longer)
            match_at = place + length
            match_end = match_at + match
            first = match_at - two_bytes(data, at + 1 + length)
            if (USUAL_LITERALS - length | _USUAL_MATCH - match | match_at - first - min(match, 16) | first - start) < 0:
                break
            put_16(out, place, data, at + 1)
            put_16(out, match_at, out, first)
            put_16(out, match_at + 16, out, first + 16)
            if marked is not None and suspects is not None:
                suspects[suspected] = at << SUSPECT_BITS | place
                suspected += (marked_bits(marked, first, match) != 0) | (match_end > sure)
            place = match_end
            at += length + 3 + longer
        sequence, begin = at, place
        at, place, distance, match = _unlz4_sequence(data, at, end, out, start, place)
        if at < 0:
            return -1, -1, -1
        if marked is not None and suspects is not None:
            suspects[suspected] = sequence << SUSPECT_BITS | begin
            first = place - distance
            suspected += (place + match > sure) | any_marked(marked, first, first + match)
        place += match
        if place > limit:
            break
    return at, place, suspected


@compiled
def largest_block(data: Bytes, at: int, end: int) -> int:
    """What a block of the frame that begins at ``at`` comes to at most; -1 where there is no frame."""
    if end - at < FRAME_HEADER + 4 + FRAME_END or little(data, at) != _FRAME_MAGIC:
        return -1
    block = int(data[at + 5])
    if block & _BLOCK_OTHER != 0 or not _LEAST_BLOCK <= block <= _MOST_BLOCK:
        return -1
    return 1 << 8 + 2 * (block >> 4)


@compiled
def unlz4(data: Bytes, at: int, end: int, out: Bytes, start: int) -> int:
    """Decompress a frame of one block to ``start``; returns where its content ends in ``out``, and -1 for any other
    frame, too, or where it is damaged or there is no room. Checksums within it are passed over, as the batch has its
    own."""
    most = largest_block(data, at, end)
    if most < 0 or data[at + FRAME_FLAGS] & _FRAME_OTHER != FRAME_VERSION:
        return -1
    size = little(data, at + FRAME_HEADER)
    plain = size >= PLAIN_BLOCK
    size &= PLAIN_BLOCK - 1
    after = at + FRAME_HEADER + 4 + size
    if data[at + FRAME_FLAGS] & _FRAME_BLOCK_CHECKSUM:
        after += 4
    at += FRAME_HEADER + 4
    if end - after != FRAME_END or little(data, after) != 0:
        return -1
    if not plain:
        _, content, _ = unlz4_block(data, at, at + size, out, start, start, ANYWHERE, ANYWHERE, None, None, 0)
        return content if content - start <= most else -1
    if size > most or size > len(out) - start:
        return -1
    put(out, start, data, at, size)
    return start + size
