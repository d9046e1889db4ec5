"""Record batches of magic 2 as bytes: header, checksum, stamping for an unopened copy.

Layout and attribute bits: Kafka's ``DefaultRecordBatch``. A batch is a 61-byte header and a body (the records,
compressed as a whole when the codec bits are set). The CRC-32C covers everything from the attributes on.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from srm_common.errors import CorruptBatch
from srm_common.wire.varints import Buffer

# CRC-32C of a batch whose header changes and whose body does not, without reading the body.
#
# The checksum is affine over GF(2): for headers of equal length, crc(H'B) = crc(HB) + x^8n (crc(H) + crc(H')) mod P,
# where n is the length of B and + is exclusive or. So the new checksum carries the old one on: a bit of the body that
# flips in our memory makes the target refuse the batch, where a recomputed checksum would sign it as good.


#: Castagnoli's polynomial, reflected: bit 31 stands for x^0.
_POLYNOMIAL, _ONE = 0x82F63B78, 1 << 31
#: To continue with a checksum over n zeros multiplies it by x^8n. Over so few that costs least.
_ZERO_BITS = 14
_ZEROS = memoryview(bytes(1 << _ZERO_BITS))
_ZERO_MASK = len(_ZEROS) - 1
_INVERTED = 0xFFFFFFFF
#: One digit of the rest of the body's length.
_DIGIT_BITS, _DIGIT = 4, 15

#: By the place and the value of a digit: four tables in one, which multiply each byte of a checksum by the power of x.
#: Each takes 4 KB and some 50 us to make, so they are made when they are first needed.
_tables: dict[tuple[int, int], array[int]] = {}


def carried(crc: int, old: int, new: int, length: int) -> int:
    """The checksum of the new header and the body.

    Args:
        crc: of the old header and the body.
        old: of the old header alone.
        new: of the new header alone, which is as long; or 0 for the checksum of the body alone.
        length: of the body.
    """
    if old == new:
        return crc
    # What the library begins and ends with, an inversion, is taken back, so that only the difference is multiplied.
    moved = crc32c(_ZEROS[: length & _ZERO_MASK], old ^ new ^ _INVERTED) ^ _INVERTED
    length >>= _ZERO_BITS
    place = 0
    while length:
        digit = length & _DIGIT
        if digit:
            table = _tables.get((place, digit)) or _table(place, digit)
            moved = (
                table[moved & 255]
                ^ table[256 + (moved >> 8 & 255)]
                ^ table[512 + (moved >> 16 & 255)]
                ^ table[768 + (moved >> 24)]
            )
        length >>= _DIGIT_BITS
        place += 1
    return crc ^ moved


def _times_x(value: int) -> int:
    return value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)


def _product(one: int, other: int) -> int:
    result = 0
    while one:
        if one & _ONE:
            result ^= other
        one, other = one << 1 & 0xFFFFFFFF, _times_x(other)
    return result


def _power(exponent: int) -> int:
    """x^exponent."""
    result, square = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            result = _product(result, square)
        exponent, square = exponent >> 1, _product(square, square)
    return result


def _table(place: int, digit: int) -> array[int]:
    products = [0] * 32
    product = _power(8 * digit << _ZERO_BITS + _DIGIT_BITS * place)
    for bit in range(31, -1, -1):
        products[bit] = product
        product = _times_x(product)
    table = array("I")
    for byte in range(4):
        sums = [0]
        for bit in range(8 * byte, 8 * byte + 8):
            sums += [one ^ products[bit] for one in sums]
        table.extend(sums)
    _tables[place, digit] = table
    return table


#: No log has so many records; the offsets of a batch can be counted on from here without leaving 64 bits.
_OFFSET_BITS = 62

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
#: Bytes before the field ``length`` counts: base offset and the length itself.
LENGTH_OVERHEAD = 12
MAGIC = 16
CRC_START = 21

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
#: The cleaner re-uses the base timestamp as delete horizon when this is set.
DELETE_HORIZON = 0x40

_tuple = tuple.__new__  # what the constructors of named tuples end in, at a fifth of their cost
_PREFIX = struct.Struct(">qiibI").pack
_STAMP = struct.Struct(">hiqqqhii").pack


class Header(NamedTuple):
    """The fixed fields of a batch; offsets are upstream offsets, timestamps milliseconds."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last one, whether that record still exists or not."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def dense(self) -> bool:
        """Every offset of the batch has its record (no hole left by compaction)."""
        return self.record_count == self.last_offset_delta + 1


class Checked(NamedTuple):
    """The checksum that a batch came with, and that of the part of its header that it covers; or that of a body which
    was written again, and 0."""

    crc: int
    header_crc: int


class SourceBatch(NamedTuple):
    """A batch as it was fetched; ``data`` is the whole batch, a view into a receive buffer."""

    header: Header
    data: memoryview


def parse_header(data: Buffer, at: int = 0) -> Header:
    """The header at byte ``at``."""
    return Header._make(HEADER.unpack_from(data, at))


def split(records: memoryview) -> Iterator[SourceBatch]:
    """The complete batches of a fetch answer, in log order; the broker may cut the last one short.

    Raises:
        CorruptBatch: a length that no batch can have.
    """
    position, total = 0, len(records)
    unpack = HEADER.unpack_from
    while total - position > MAGIC:
        fields = unpack(records, position) if total - position >= HEADER_SIZE else None
        if fields is not None and fields[3] == 2:
            header, length, shortest = _tuple(Header, fields), fields[1], HEADER_SIZE - LENGTH_OVERHEAD
            if fields[0] >> _OFFSET_BITS or fields[6] < 0 or fields[12] < 0:
                raise CorruptBatch(
                    f"a batch has the impossible offset {fields[0]}, last delta {fields[6]} or count {fields[12]}"
                )
        else:
            magic = records[position + MAGIC]
            if magic == 2:
                return
            if magic > 2:
                raise CorruptBatch(f"a batch has the unknown magic {magic}")
            header, shortest = _legacy_header(records, position), _SHORTEST_LEGACY
            length = header.length
        if length < shortest:
            raise CorruptBatch(f"batch at offset {header.base_offset} has the impossible length {length}")
        end = position + length + LENGTH_OVERHEAD
        if end > total:
            return
        yield _tuple(SourceBatch, (header, records[position:end]))
        position = end


_LEGACY = struct.Struct(">qiIb")
#: Checksum, magic, attributes, and the lengths of key and value.
_SHORTEST_LEGACY = 14


def _legacy_header(records: memoryview, at: int) -> Header:
    """What can be said of a magic 0 or 1 entry; a compressed one carries the offset of its last record (KIP-31)."""
    offset, length, crc, magic = _LEGACY.unpack_from(records, at)
    return Header(offset, length, -1, magic, crc, 0, 0, -1, -1, -1, -1, -1, 1)


def verify(batch: SourceBatch) -> None:
    """Check the batch's CRC-32C; magic 0 and 1 have a CRC-32 from the magic on.

    Raises:
        CorruptBatch: it does not match; the batch must not be copied.
    """
    legacy = batch.header.magic < 2
    actual = crc32(batch.data[MAGIC:]) if legacy else crc32c(batch.data[CRC_START:])
    if actual != batch.header.crc:
        raise damaged(batch.header, actual)


def damaged(header: Header, actual: int) -> CorruptBatch:
    """What to say of a batch whose checksum is not the one that it has."""
    return CorruptBatch(
        f"batch at offset {header.base_offset} fails its checksum (stored {header.crc:#010x}, computed {actual:#010x})"
    )


def stamp(
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    body: Buffer,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    checked: Checked | None = None,
) -> bytes:
    """A fresh 61-byte header for ``body`` under our producer, checksum included.

    ``checked`` is of the batch that ``body`` came in: its checksum is derived instead of recomputed, so that the
    broker refuses a body that is not what was verified.

    The broker assigns the base offset and the leader epoch. Control and delete-horizon bits are always cleared: kept,
    the first is refused (INVALID_RECORD) and the second would make the target's cleaner take the base timestamp for
    a delete horizon.
    """
    signed = _STAMP(
        attributes & ~(CONTROL | DELETE_HORIZON),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    if checked is None:
        crc = crc32c(body, crc32c(signed))
    else:
        crc = carried(checked.crc, checked.header_crc, crc32c(signed), len(body))
    return _PREFIX(0, HEADER_SIZE - LENGTH_OVERHEAD + len(body), -1, 2, crc) + signed


# A record batch ready to be stamped with our producer, and where its records came from.


#: What of a source batch's attributes its copy keeps.
_KEPT = ~(TRANSACTIONAL | CONTROL | DELETE_HORIZON)
#: One run: (upstream offset, upstream length, records); dense when the last two are equal.
UpstreamRun = tuple[int, int, int]


class Packed(NamedTuple):
    """Body and header fields of a batch to produce; ``runs`` say which upstream offsets its records had.

    ``checked``: the checksum of the body, which the new one is to carry on; the source's where it is unopened.
    """

    attributes: int
    base_timestamp: int
    max_timestamp: int
    record_count: int
    body: Buffer
    runs: Sequence[UpstreamRun]
    upstream_end: int
    reencoded: bool
    checked: Checked | None = None

    @property
    def size(self) -> int:
        """Bytes of the whole batch on the target."""
        return HEADER_SIZE + len(self.body)


def unopened(batch: SourceBatch) -> Packed:
    """A dense batch of magic 2 as it is; only its header will be written again.

    Raises:
        CorruptBatch: its checksum is wrong.
    """
    header, data = batch
    (offset, _, _, _, crc, attributes, _, base_timestamp, max_timestamp, _, _, _, count) = header
    body = data[HEADER_SIZE:]
    header_crc = crc32c(data[CRC_START:HEADER_SIZE])
    actual = crc32c(body, header_crc)
    if actual != crc:
        raise damaged(header, actual)
    return _tuple(
        Packed,
        (
            attributes & _KEPT,
            base_timestamp,
            max_timestamp,
            count,
            body,
            ((offset, count, count),),
            offset + count,
            False,
            _tuple(Checked, (crc, header_crc)),
        ),
    )
