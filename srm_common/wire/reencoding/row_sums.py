"""The loop that adds up the batches of a row for a fingerprint: headers and checksums of all of them in one call.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so, by
:mod:`srm_common.wire.reencoding.batch_rows`. It needs the processor's instruction for CRC-32C.
"""

from __future__ import annotations

import numpy as np

from srm_common.domain.offsets import fingerprints
from srm_common.domain.verification.copy_batch import BatchRow
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
)
from srm_common.wire.reencoding.machine_code import byte, crc32c_of_both
from srm_common.wire.reencoding.record_walk import Bytes, Ints, compiled

#: So many batches are added up in one call.
_MOST = 4096
_PRIME = fingerprints.PRIME
_CRC_FACTOR, _TIME_FACTOR, _COUNT_FACTOR, _OFFSET_TERM = fingerprints.FACTORS
_LOW_31, _LOW_30, _LOW_32 = (1 << 31) - 1, (1 << 30) - 1, (1 << 32) - 1
_NEGATIVE_4, _NEGATIVE_2 = 1 << 31, 1 << 15
#: From here on an offset and the number that is added to it might need more than 63 bits.
_IMPOSSIBLE_OFFSET = 1 << 62
_NOT_IN_A_ROW = CONTROL | DELETE_HORIZON


@compiled
def _big(data: Bytes, at: int, size: int) -> int:
    """A big-endian number; one of 8 bytes has a sign."""
    value = 0
    for place in range(at, at + size):
        value = value << 8 | byte(data, place)
    return value


@compiled
def _reduced(number: int) -> int:
    """A number of at most 63 bits modulo 2^61 - 1: what is above 61 bits counts once more below."""
    number = (number & _PRIME) + (number >> 61)
    return number - _PRIME if number >= _PRIME else number


@compiled
def product(one: int, other: int) -> int:
    """Of two numbers below 2^61 - 1, modulo that. Of 30 and 31 bits each, so that no part needs more than 63."""
    high, low = one >> 31, one & _LOW_31
    other_high, other_low = other >> 31, other & _LOW_31
    middle = high * other_low + low * other_high
    # 2^62 is 2, and 2^61 is 1.
    return _reduced(2 * high * other_high + (middle >> 30) + ((middle & _LOW_30) << 31) + low * other_low)


@compiled
def add_up(data: Bytes, position: int, end: int, terms: Ints) -> tuple[int, int, int, int, int]:
    """As :func:`srm_common.wire.batches.batch_terms.batch_row`, up to so many batches as ``terms`` has columns.

    Args:
        data: a fetch answer.
        position: where the row begins; at ``end`` (an offset) it ends at the latest.
        terms: gets the term of each batch, and its offset.

    Returns how many batches were taken, the offset and the place behind them, and digest and content of all.
    """
    taken = digest = content = 0
    at = producer = epoch = -1
    while taken < terms.shape[1] and len(data) - position >= HEADER_SIZE:
        first = _big(data, position, 8)
        until = position + _big(data, position + 8, 4) + LENGTH_OVERHEAD
        attributes = _big(data, position + 21, 2)
        time = _big(data, position + 27, 8)
        own = _big(data, position + 43, 8)
        own_epoch = _big(data, position + 51, 2)
        count = _big(data, position + 57, 4)
        if taken == 0:
            at, producer, epoch = first, own, own_epoch
        if first != at or first < 0 or first >= _IMPOSSIBLE_OFFSET or first + count > end:
            break
        if count < 1 or count >= _NEGATIVE_4 or count != _big(data, position + 23, 4) + 1:
            break
        if own != producer or own_epoch != epoch or attributes & _NOT_IN_A_ROW or byte(data, position + MAGIC) != 2:
            break
        body = position + HEADER_SIZE
        if until < body or until > len(data):
            break
        crc, body_crc = crc32c_of_both(data, position + CRC_START, body, until)
        if crc != _big(data, position + 17, 4):
            break
        term = product(body_crc, _CRC_FACTOR) + product(time % _PRIME, _TIME_FACTOR)
        term = _reduced(_reduced(term) + product(count << 3 | attributes & CODEC_MASK, _COUNT_FACTOR))
        digest = _reduced(digest + product(term, _reduced(first + _OFFSET_TERM)))
        content = (content + term) & _LOW_32
        terms[0, taken], terms[1, taken] = term, first
        taken += 1
        at, position = first + count, until
    return taken, at, position, digest, content


def compiled_row(records: memoryview, position: int, end: int) -> BatchRow:
    """As :func:`~srm_common.wire.batches.batch_terms.batch_row`; a long row comes in pieces."""
    data = np.frombuffer(records, np.uint8)
    data.flags.writeable = False  # or the loop is compiled for both kinds
    found = np.empty((2, _MOST), np.int64)
    taken, at, behind, digest, content = add_up(data, position, end, found)
    producer = int.from_bytes(records[position + 43 : position + 51], "big", signed=True)
    epoch = int.from_bytes(records[position + 51 : position + 53], "big", signed=True)
    terms = dict(zip(found[0, :taken].tolist(), found[1, :taken].tolist(), strict=True))
    return BatchRow(at, (producer, epoch), behind - position, digest, content, terms)
