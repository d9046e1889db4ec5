"""Compiled loops that decompress LZ4, for bodies so small that a call of the library costs more.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so. Formats: lz4_Frame_format.md,
lz4_Block_format.md.
"""

from __future__ import annotations

from srm_common.wire.reencoding.machine_code import byte, put, put_16, spill, two_bytes
from srm_common.wire.reencoding.record_walk import Bytes, compiled

#: Of a frame: magic, flags, block size, checksum, then the length of the first block. Bit 31 of that says that the
#: block is not compressed.
_FRAME_MAGIC, _FRAME_HEADER, _FRAME_END = 0x184D2204, 7, 4
_FRAME_VERSION, _FRAME_BLOCK_CHECKSUM, _FRAME_OTHER = 0x40, 0x10, 0xCF
#: The third byte before the lengths: 4 to 7 in its upper half, for blocks of 64 KB, 256 KB, 1 MB and 4 MB at most.
_LEAST_BLOCK, _MOST_BLOCK, _BLOCK_OTHER = 0x40, 0x70, 0x8F
_PLAIN_BLOCK = 1 << 31
_LEAST_MATCH = 4
#: Of a usual sequence, at most: its literals, and its repetition, which are copied as so many bytes however short they
#: are; what is read of it, and what is written for it.
_USUAL_LITERALS, _USUAL_MATCH = 14, 32
_USUAL_READ, _USUAL_WRITTEN = 1 + 16 + 2, _USUAL_LITERALS + _USUAL_MATCH


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
def unlz4_block(data: Bytes, at: int, end: int, out: Bytes, start: int) -> int:
    """Decompress a block to ``start``; returns where its content ends in ``out``, -1 where it is damaged or there is no
    room. Then something else may have been written behind ``start``."""
    room = len(out)
    place = start
    last, last_place = end - _USUAL_READ, room - _USUAL_WRITTEN
    while at < end:
        while (last - at | last_place - place) >= 0:
            # Nearly all sequences are decompressed in here, without a branch that the processor could guess wrong.
            token = byte(data, at)
            length = token >> 4
            match = token & 15
            # One where the length of the repetition has another byte, which counts for nothing elsewhere.
            longer = match + 1 >> 4
            match += _LEAST_MATCH + (byte(data, at + length + 3) & -longer)
            match_at = place + length
            first = match_at - two_bytes(data, at + 1 + length)
            if (_USUAL_LITERALS - length | _USUAL_MATCH - match | match_at - first - 16 | first - start) < 0:
                break
            put_16(out, place, data, at + 1)
            put_16(out, match_at, out, first)
            put_16(out, match_at + 16, out, first + 16)
            place = match_at + match
            at += length + 3 + longer
        token = byte(data, at)
        at += 1
        length = token >> 4
        if length == 15:
            more, at = more_length(data, at, end)
            if at < 0:
                return -1
            length += more
        if length > end - at or length > room - place:
            return -1
        spill(out, place, data, at, length)
        place += length
        at += length
        if at == end:
            return place
        if end - at < 2:
            return -1
        distance = two_bytes(data, at)
        at += 2
        length = token & 15
        if length == 15:
            more, at = more_length(data, at, end)
            if at < 0:
                return -1
            length += more
        length += _LEAST_MATCH
        if distance == 0 or distance > place - start or length > room - place:
            return -1
        if length <= distance:
            spill(out, place, out, place - distance, length)
        else:
            for copied in range(place, place + length):
                out[copied] = out[copied - distance]
        place += length
    return -1


@compiled
def unlz4(data: Bytes, at: int, end: int, out: Bytes, start: int) -> int:
    """Decompress a frame of one block to ``start``; returns as :func:`unlz4_block`, and -1 for any other frame, too.
    Checksums within it are passed over, as the batch has its own."""
    if end - at < _FRAME_HEADER + 4 + _FRAME_END or little(data, at) != _FRAME_MAGIC:
        return -1
    flags = int(data[at + 4])
    block = int(data[at + 5])
    if block & _BLOCK_OTHER != 0 or not _LEAST_BLOCK <= block <= _MOST_BLOCK:
        return -1
    most = 1 << 8 + 2 * (block >> 4)
    size = little(data, at + _FRAME_HEADER)
    plain = size >= _PLAIN_BLOCK
    size &= _PLAIN_BLOCK - 1
    at += _FRAME_HEADER + 4
    after = at + size
    if flags & _FRAME_BLOCK_CHECKSUM:
        after += 4
    if flags & _FRAME_OTHER != _FRAME_VERSION or end - after != _FRAME_END or little(data, after) != 0:
        return -1
    if not plain:
        content = unlz4_block(data, at, at + size, out, start)
        return content if content - start <= most else -1
    if size > most or size > len(out) - start:
        return -1
    put(out, start, data, at, size)
    return start + size
