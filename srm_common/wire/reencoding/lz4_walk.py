"""Compiled loops that decompress LZ4, for bodies so small that a call of the library costs more.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so. Formats: lz4_Frame_format.md,
lz4_Block_format.md.
"""

from __future__ import annotations

from srm_common.wire.reencoding.machine_code import put, spill
from srm_common.wire.reencoding.record_walk import Bytes, compiled

#: Of a frame: magic, flags, block size, checksum, then the length of the first block. Bit 31 of that says that the
#: block is not compressed.
_FRAME_MAGIC, _FRAME_HEADER, _FRAME_END = 0x184D2204, 7, 4
_FRAME_VERSION, _FRAME_BLOCK_CHECKSUM, _FRAME_OTHER = 0x40, 0x10, 0xCF
#: The third byte before the lengths: 4 to 7 in its upper half, for blocks of 64 KB, 256 KB, 1 MB and 4 MB at most.
_LEAST_BLOCK, _MOST_BLOCK, _BLOCK_OTHER = 0x40, 0x70, 0x8F
_PLAIN_BLOCK = 1 << 31
_LEAST_MATCH = 4


@compiled
def little(data: Bytes, at: int) -> int:
    """A little-endian number of 4 bytes without a sign."""
    return int(data[at]) | int(data[at + 1]) << 8 | int(data[at + 2]) << 16 | int(data[at + 3]) << 24


@compiled
def unlz4_block(data: Bytes, at: int, end: int, out: Bytes, start: int) -> int:
    """Decompress a block to ``start``; returns where its content ends in ``out``, -1 where it is damaged or there is no
    room. Then something else may have been written behind ``start``."""
    room = len(out)
    place = start
    while at < end:
        token = int(data[at])
        at += 1
        length = token >> 4
        if length == 15:
            more = 255
            while more == 255:
                if at >= end:
                    return -1
                more = int(data[at])
                at += 1
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
        distance = int(data[at]) | int(data[at + 1]) << 8
        at += 2
        length = token & 15
        if length == 15:
            more = 255
            while more == 255:
                if at >= end:
                    return -1
                more = int(data[at])
                at += 1
                length += more
        length += _LEAST_MATCH
        if distance == 0 or distance > place - start or length > room - place:
            return -1
        if length <= distance:
            spill(out, place, out, place - distance, length)
        else:
            for byte in range(place, place + length):
                out[byte] = out[byte - distance]
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
