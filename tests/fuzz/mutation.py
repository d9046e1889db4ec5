"""Changes of real bytes and texts that decoders find hard: bits, cuts, pieces of others, lengths that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from srm_common.wire.varints import write_varint

_NUMBERS = (0, 1, 2, 7, 127, 128, 255, 32767, 32768, 65535, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)
#: Lengths as the formats write them: of 2, 4 and 8 bytes, either way round, negative ones too.
_LENGTHS = tuple(
    (sign * number & (1 << 8 * size) - 1).to_bytes(size, order)
    for number in _NUMBERS
    for sign in (1, -1)
    for size in (2, 4, 8)
    for order in ("big", "little")
)
_VARINTS = tuple(write_varint(sign * number) for number in _NUMBERS for sign in (1, -1))
#: Never ends, or ends after more than 64 bits.
_ENDLESS = (b"\x80" * 5, b"\xff" * 10, b"\x80" * 400, b"\xff" * 70_000, b"\xff" * 20 + b"\x01")
#: What means something in the texts that are read: properties, JSON, JAAS, regular expressions, schemas.
_WORDS = (
    *(b"\\", b"\\u00", b"\\uD800", b"${", b"}", b'"', b"'", b";", b"=", b"\n", b"\r\n", b"\0", b"\xc3\x28"),
    *(b"\xed\xa0\x80", b"(?i)", b"(a+)+$", b"[^", b"{1,9999999}", b"\\Q", b"\\E", b"\\k<n>", b"(?<n>", b"|", b"*+"),
    *(b"(" * 300, b"[" * 3000, b'{"a":' * 2000, b"9" * 5000),
    *(b"null", b"NaN", b"-Infinity", b"1e999999999", b"{}", b"[]", b"true", b"-1"),
    *(b"message M {", b"oneof o {", b"map<string, M> m = 1;", b"/*", b"//", b"reserved 1 to max;", b"repeated"),
    *(b'"type":', b'"record"', b'"$ref":"#"', b'"items":', b"required", b".topics", b"->", b","),
)
#: Beyond this nothing is learnt that a shorter input does not teach.
MOST_BYTES = 1 << 18

_Change = Callable[[bytearray, int, Random, Sequence[bytes]], None]


def _flip(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    if data:
        data[at % len(data)] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    if data:
        data[at % len(data)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _cut(data: bytearray, at: int, _chance: Random, _others: Sequence[bytes]) -> None:
    del data[at:]


def _leave_out(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    del data[at : at + chance.choice((1, 2, 4, 8, chance.randrange(1, 64)))]


def _repeat(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    data[at:at] = data[at : at + chance.randrange(1, 64)] * chance.choice((1, 1, 2, 100))


def _splice(data: bytearray, at: int, chance: Random, others: Sequence[bytes]) -> None:
    other = chance.choice(others)
    begin = chance.randrange(len(other) + 1)
    piece = other[begin : begin + chance.randrange(1, 200)]
    data[at : at + chance.choice((0, len(piece)))] = piece


def _length(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    piece = chance.choice(_LENGTHS)
    data[at : at + chance.choice((0, len(piece)))] = piece


def _varint(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    data[at : at + chance.randrange(3)] = chance.choice(_VARINTS)


def _endless(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    data[at : at + chance.randrange(2)] = chance.choice(_ENDLESS)


def _word(data: bytearray, at: int, chance: Random, _others: Sequence[bytes]) -> None:
    data[at : at + chance.choice((0, 1))] = chance.choice(_WORDS)


_CHANGES: tuple[_Change, ...] = (
    *(_flip, _byte, _length, _varint) * 2,
    *(_cut, _leave_out, _repeat, _splice, _endless, _word),
)


def mutated(chance: Random, data: bytes, others: Sequence[bytes], keep: int = 0) -> bytes:
    """``data`` with one to four changes.

    Args:
        others: what pieces are taken from.
        keep: bytes at the beginning that stay, such as a version that a decoder looks at first; changed now and then.
    """
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 4))):
        least = min(keep, len(out)) if chance.random() < 0.9 else 0
        at = chance.randrange(least, len(out) + 1)
        chance.choice(_CHANGES)(out, at, chance, others)
    return bytes(out[:MOST_BYTES])
