"""Fingerprints: what the flow committed to a copy, in twelve bytes a segment, to be compared with the copy alone.

A fingerprint is a sum over record batches, so that those of chunks that follow one another add up to that of all:

    c        = crc * A + base timestamp * B + (records * 8 + codec) * C           of one batch, modulo P
    digest   = sum of c * (base offset + D)                                       modulo P = 2**61 - 1
    content  = sum of c                                                           modulo 2**32

``crc`` is the CRC-32C of the batch's body: its records as they lie in the log, compressed or not. It follows from the
checksum that the batch has, and its header. ``base offset`` is the downstream one. The maximum timestamp is left out:
brokers correct it, and records' times count from the base timestamp.

One batch that is other than it was always changes the digest if its CRC-32C, its time, or its number of records does,
and so does one that has another offset: no factor is zero modulo a prime. Several faults cancel by a chance of 2**-61.
Where the digest differs and the content does not, the same batches lie in another order. A body that was changed so
that its CRC-32C is the same is not detected: fingerprints detect faults, not forgery.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from srm_common.errors import CorruptRecord

#: A prime of Mersenne's.
PRIME = (1 << 61) - 1
_CONTENT_MASK = (1 << 32) - 1
#: Digits of pi and e, as numbers that were clearly not chosen for a purpose; they are part of the format.
FACTORS = _A, _B, _C, _D = 0x0243F6A8885A308D, 0x013198A2E0370734, 0x15BF0A8B14573A1F, 0x0B7E151628AED2A6
_LAYOUT = struct.Struct(">QI")

FINGERPRINT_BYTES = _LAYOUT.size


class Fingerprint(NamedTuple):
    """Of some batches of one copy; both numbers as the module's docstring defines them."""

    digest: int = 0
    content: int = 0

    def plus(self, other: Fingerprint) -> Fingerprint:
        """Of the batches of both."""
        return Fingerprint((self.digest + other.digest) % PRIME, (self.content + other.content) & _CONTENT_MASK)

    def to_bytes(self) -> bytes:
        return _LAYOUT.pack(*self)

    def text(self) -> str:
        """Its bytes in hexadecimal; empty for that of no batches."""
        return "" if self == NO_BATCHES else self.to_bytes().hex()

    @classmethod
    def from_text(cls, text: str) -> Fingerprint:
        """What :meth:`text` has made.

        Raises:
            CorruptRecord: another length, or a number that is out of range.
            ValueError: it is not hexadecimal.
        """
        return cls.from_bytes(bytes.fromhex(text)) if text else NO_BATCHES

    @classmethod
    def from_bytes(cls, data: bytes) -> Fingerprint:
        """What :meth:`to_bytes` has made.

        Raises:
            CorruptRecord: another length, or a number that is out of range.
        """
        if len(data) != FINGERPRINT_BYTES:
            raise CorruptRecord(f"a fingerprint has {len(data)} bytes, not {FINGERPRINT_BYTES}")
        fingerprint = cls(*_LAYOUT.unpack(data))
        if fingerprint.digest >= PRIME:
            raise CorruptRecord(f"a fingerprint's digest is {fingerprint.digest}, and not below 2**61 - 1")
        return fingerprint


NO_BATCHES = Fingerprint()


def batch_term(body_crc: int, base_timestamp: int, records: int, codec: int) -> int:
    """What one batch is without its offset.

    Args:
        body_crc: CRC-32C of the body.
        base_timestamp: epoch milliseconds, as the header has it.
        codec: the lowest three bits of the header's attributes.
    """
    return (body_crc * _A + base_timestamp * _B + (records << 3 | codec) * _C) % PRIME


def offset_factor(base_offset: int) -> int:
    """What the term of a batch at this downstream offset is multiplied by."""
    return base_offset + _D


def fingerprint_of(digest: int, content: int) -> Fingerprint:
    """Of sums that were not reduced yet: of terms times factors, and of terms."""
    return Fingerprint(digest % PRIME, content & _CONTENT_MASK)
