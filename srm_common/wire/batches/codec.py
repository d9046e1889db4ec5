"""Compression codecs of record batches, by cramjam.

Codec numbers are Kafka's ``CompressionType`` ids. Snappy bodies may come in xerial framing (Java clients) or raw.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from typing import Any

import cramjam

from srm_common.errors import CorruptBatch
from srm_common.wire.varints import Buffer, read_uvarint

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK = 32 * 1024
#: Of an LZ4 frame (lz4_Frame_format.md): magic, flags, block size, checksum; and the length 0 behind its blocks. Bit 31
#: of the length of a block says that it is not compressed.
_LZ4_MAGIC, _LZ4_HEADER_BYTES, _LZ4_END = b"\x04\x22\x4d\x18", 7, bytes(4)
_LZ4_PLAIN_BLOCK = 1 << 31
#: Its flags: blocks that do not need each other; a checksum behind each block; the version; what changes the length of
#: the header or the end, and the version.
LZ4_INDEPENDENT, LZ4_BLOCK_CHECKSUM = 0x20, 0x10
_LZ4_VERSION, _LZ4_OTHER = 0x40, 0xCF
#: What a block comes to at most, by the third byte before the lengths.
_LZ4_BLOCK_BYTES = {0x40: 64 << 10, 0x50: 256 << 10, 0x60: 1 << 20, 0x70: 4 << 20}
#: So many times larger than its blocks is what is in them, at most; else the library takes over.
_LZ4_GUESS, _LZ4_MOST = 16, 4 << 20
#: A frame's header as Java's producer writes it: independent blocks of 64 KB, no checksums but that of the header.
_LZ4_WRITTEN, _LZ4_WRITTEN_BLOCK = b"\x04\x22\x4d\x18\x60\x40\x82", 64 << 10
#: What a batch may come to without compression. Brokers limit what it takes with it; a megabyte of zstd may be 32 GB.
LARGEST_BODY = 256 << 20
#: What a byte becomes at most; zstd's blocks are counted instead (RFC 8878: four bytes may stand for 128 KiB).
_MOST_TIMES = {GZIP: 1032, LZ4: 255}
#: Of Snappy (format_description.txt): a copy of up to 64 bytes takes three at least.
_SNAPPY_TIMES = 22
_ZSTD_MAGIC, _ZSTD_BLOCK, _ZSTD_LEAST, _ZSTD_REPEATED = b"\x28\xb5\x2f\xfd", 128 << 10, 4, 1
#: What the library says when it has more than it has room for.
_NO_ROOM = "failed to write whole buffer"
#: Levels that match what producers use by default or cost least for what they save.
_LEVELS = {GZIP: 1, ZSTD: 3, LZ4: 1}


def decompress(codec: int, body: Buffer) -> Buffer:
    """The records of a batch body.

    Raises:
        CorruptBatch: an unknown codec, a body that is not what the codec says, or more than :data:`LARGEST_BODY`.
    """
    if codec == NONE:
        return body
    try:
        if codec == LZ4:
            return _unlz4(body)
        if codec == ZSTD:
            return _within(cramjam.zstd, body, _zstd_at_most(body))
        if codec == GZIP:
            return _within(cramjam.gzip, body, len(body) * _MOST_TIMES[GZIP])
        if codec == SNAPPY:
            return _unsnappy(body)
    except cramjam.DecompressionError as error:
        if str(error) == _NO_ROOM:
            raise _too_large(codec) from error
        raise CorruptBatch(f"batch body is not valid {NAMES[codec]}: {error}") from error
    raise CorruptBatch(f"batch uses the unknown compression codec {codec}")


def library_level(codec: int, level: int) -> int:
    """A level of Kafka's producer in the library's numbers. The producer's default for LZ4, 9, stands for a compressor
    without levels (``Lz4BlockOutputStream``): LZ4's quick one, which is level 1 in the library."""
    if codec == LZ4 and level == 9:
        return 1
    return 6 if codec == GZIP and level < 0 else level


def compress(codec: int, records: Buffer, level: int | None = None) -> Buffer:
    """A batch body; ``level`` is the library's, None a cheap one. LZ4 frames have independent blocks and no content
    checksum: brokers refuse others."""
    if codec == NONE:
        return records
    if level is None:
        level = _LEVELS.get(codec, 0)
    if codec == LZ4 and level == _LEVELS[LZ4]:
        return _lz4(records)
    if codec == LZ4:
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(records))  # the only kind it takes
        return memoryview(compressor.finish())
    if codec == ZSTD:
        return memoryview(cramjam.zstd.compress(records, level))
    if codec == GZIP:
        return memoryview(cramjam.gzip.compress(records, level))
    if codec == SNAPPY:
        return _snappy(records)
    raise CorruptBatch(f"cannot write the unknown compression codec {codec}")


def _unlz4(body: Buffer) -> Buffer:
    """A frame as producers write it, block by block, for half the cost, and a fifth of it where the block is small: the
    library prepares for frames of any kind first. Checksums within the frame are passed over, as the batch has its
    own."""
    blocks = lz4_blocks(body)
    if blocks:
        room = memoryview(bytearray(min(sum([most for _, _, _, most in blocks]), _LZ4_MOST)))
        ends = unlz4_blocks(body, blocks, room)
        if ends is not None:
            return room[: ends[-1]]
    return _within(cramjam.lz4, body, len(body) * _MOST_TIMES[LZ4])


def unlz4_blocks(body: Buffer, blocks: Sequence[tuple[int, int, bool, int]], room: memoryview) -> list[int] | None:
    """Decompress blocks of a frame one after the other; returns where each of them ends in ``room``, None where one is
    damaged, or has more than was guessed.

    Args:
        blocks: as :func:`lz4_blocks` returns them.
    """
    ends = []
    filled = 0
    view = memoryview(body)
    try:
        for at, end, plain, most in blocks:
            there = room[filled : filled + most]
            if plain:
                there[: end - at] = view[at:end]
                filled += end - at
            else:
                filled += cramjam.lz4.decompress_block_into(view[at:end], there, output_len=len(there))
            ends.append(filled)
    except (cramjam.DecompressionError, ValueError):
        return None
    return ends


def lz4_blocks(body: Buffer) -> list[tuple[int, int, bool, int]]:
    """Where each block of a frame begins and ends, whether it is not compressed, and what it should come to at most;
    none where the library has to look at the frame."""
    found: list[tuple[int, int, bool, int]] = []
    size = len(body)
    if size <= _LZ4_HEADER_BYTES + len(_LZ4_END) or body[:4] != _LZ4_MAGIC:
        return found
    flags, at = body[4], _LZ4_HEADER_BYTES
    behind = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    most = _LZ4_BLOCK_BYTES.get(body[5], 0)
    while at + 4 < size:
        length = int.from_bytes(body[at : at + 4], "little")
        begin = at + 4
        end = begin + (length & ~_LZ4_PLAIN_BLOCK)
        found.append((begin, end, length >= _LZ4_PLAIN_BLOCK, min(most, _LZ4_GUESS * (end - begin))))
        at = end + behind
    usual = flags & _LZ4_OTHER == _LZ4_VERSION and most and body[at:] == _LZ4_END
    return found if usual and (flags & LZ4_INDEPENDENT or len(found) == 1) else []


def _lz4(records: Buffer) -> Buffer:
    """A frame of blocks that the library compresses one by one: for a sixth less than it takes for a frame."""
    view = memoryview(records)
    size = len(view)
    room = memoryview(bytearray(size + size // 255 + 64 + 32 * (size // _LZ4_WRITTEN_BLOCK + 1)))
    begin = len(_LZ4_WRITTEN)
    room[:begin] = _LZ4_WRITTEN
    for at in range(0, size, _LZ4_WRITTEN_BLOCK):
        block = view[at : at + _LZ4_WRITTEN_BLOCK]
        content = room[begin + 4 :]
        length = cramjam.lz4.compress_block_into(block, content, store_size=False)
        if length < len(block):
            room[begin : begin + 4] = length.to_bytes(4, "little")
        else:
            length = len(block)
            content[:length] = block
            room[begin : begin + 4] = (length | _LZ4_PLAIN_BLOCK).to_bytes(4, "little")
        begin += 4 + length
    end = begin + len(_LZ4_END)
    room[begin:end] = _LZ4_END  # a block that was left as it is may have written there before
    return bytes(room[:end])  # what is in flight shall not hold the room


def _within(library: Any, body: Buffer, at_most: int) -> Buffer:
    """By a module of the library; into limited room where the body could come to more than that."""
    if at_most <= LARGEST_BODY:
        return memoryview(library.decompress(body))
    room = mmap.mmap(-1, LARGEST_BODY)  # pages that are not written to cost nothing
    return memoryview(room)[: library.decompress_into(body, room)]


def _zstd_at_most(body: Buffer) -> int:
    """What a body of one frame, as producers write it, comes to at most; of anything else only that it may be a lot."""
    if len(body) * _ZSTD_BLOCK <= LARGEST_BODY * _ZSTD_LEAST:
        return LARGEST_BODY
    flags = body[4]
    # A window of a byte, unless there is a single segment; no dictionary; then the content's size (RFC 8878, 3.1.1.1).
    single, sizes = flags >> 5 & 1, flags >> 6
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[sizes]
    blocks, last = 0, body[:4] != _ZSTD_MAGIC
    while not last and at + 3 <= len(body):
        header = int.from_bytes(body[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == _ZSTD_REPEATED else size)
        blocks += 1
    whole = blocks and at + (4 if flags & 4 else 0) == len(body)
    return blocks * _ZSTD_BLOCK if whole else sys.maxsize


def _unsnappy(body: Buffer) -> Buffer:
    if bytes(body[:8]) != _XERIAL_MAGIC:
        return _unsnapped(body, LARGEST_BODY)
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        at += 4
        out += _unsnapped(body[at : at + size], LARGEST_BODY - len(out))
        at += size
    return out


def _unsnapped(block: Buffer, most: int) -> Buffer:
    """A block begins with its uncompressed size, for which the library allocates room."""
    try:
        size, _ = read_uvarint(block, 0)
    except IndexError:
        size = 0  # the library will say what is wrong
    except ValueError:
        # The library takes as many zeros behind it as there are.
        raise CorruptBatch("batch body is not valid snappy: its size takes more than 5 bytes") from None
    if size > most:
        raise _too_large(SNAPPY)
    if size > len(block) * _SNAPPY_TIMES:
        raise CorruptBatch(f"batch body is not valid snappy: {len(block)} bytes cannot come to {size}")
    return memoryview(cramjam.snappy.decompress_raw(block))


def _too_large(codec: int) -> CorruptBatch:
    most = f"more than {LARGEST_BODY >> 20} MiB"
    return CorruptBatch(f"batch body of {NAMES[codec]} comes to {most}, too large to be read record by record")


def _snappy(records: Buffer) -> Buffer:
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(records), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(records[at : at + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big")
        out += block
    return out
