"""Compression codecs of record batches, by cramjam.

Codec numbers are Kafka's ``CompressionType`` ids. Snappy bodies may come in xerial framing (Java clients) or raw.
"""

from __future__ import annotations

import cramjam

from srm_common.errors import CorruptBatch
from srm_common.wire.batch import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK = 32 * 1024
#: Of an LZ4 frame (lz4_Frame_format.md): magic, flags, block size, checksum, and the length of the first block.
_LZ4_MAGIC, _LZ4_HEADER_BYTES, _LZ4_END = b"\x04\x22\x4d\x18", 11, bytes(4)
#: Its flags: the version; a checksum behind each block; what changes the header's or the end's length, and the version.
_LZ4_VERSION, _LZ4_BLOCK_CHECKSUM, _LZ4_OTHER = 0x40, 0x10, 0xCF
#: So many times larger than its block is what is in it, at most; else the library takes over.
_LZ4_GUESS, _LZ4_LARGEST_BLOCK = 16, 4 << 20
#: Levels that match what producers use by default or cost least for what they save.
_LEVELS = {GZIP: 1, ZSTD: 3, LZ4: 1}


def decompress(codec: int, body: Buffer) -> Buffer:
    """The records of a batch body.

    Raises:
        CorruptBatch: an unknown codec, or a body that is not what the codec says.
    """
    if codec == NONE:
        return body
    try:
        if codec == LZ4:
            return _unlz4(body)
        if codec == ZSTD:
            return memoryview(cramjam.zstd.decompress(body))
        if codec == GZIP:
            return memoryview(cramjam.gzip.decompress(body))
        if codec == SNAPPY:
            return _unsnappy(body)
    except cramjam.DecompressionError as error:
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
    """A frame of one block, as small batches have it, for a fifth of the cost: the library prepares for frames of any
    kind first. Checksums within the frame are passed over, as the batch has its own."""
    if len(body) > _LZ4_HEADER_BYTES:
        size = int.from_bytes(body[_LZ4_HEADER_BYTES - 4 : _LZ4_HEADER_BYTES], "little")
        flags, block_end = body[4], _LZ4_HEADER_BYTES + size
        end = block_end + 4 if flags & _LZ4_BLOCK_CHECKSUM else block_end
        if flags & _LZ4_OTHER == _LZ4_VERSION and body[:4] == _LZ4_MAGIC and body[end:] == _LZ4_END:
            room = bytearray(min(_LZ4_GUESS * size, _LZ4_LARGEST_BLOCK))
            try:
                count = cramjam.lz4.decompress_block_into(body[_LZ4_HEADER_BYTES:block_end], room, output_len=len(room))
                return memoryview(room)[:count]
            except cramjam.DecompressionError:
                pass  # more than was guessed, or damaged: then the library says so
    return memoryview(cramjam.lz4.decompress(body))


def _unsnappy(body: Buffer) -> Buffer:
    if bytes(body[:8]) != _XERIAL_MAGIC:
        return memoryview(cramjam.snappy.decompress_raw(body))
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        at += 4
        out += memoryview(cramjam.snappy.decompress_raw(body[at : at + size]))
        at += size
    return out


def _snappy(records: Buffer) -> Buffer:
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(records), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(records[at : at + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big")
        out += block
    return out
