"""CRC-32C of a batch whose header changes and whose body does not, without reading the body.

The checksum is affine over GF(2): for headers of equal length, crc(H'B) = crc(HB) + x^8n (crc(H) + crc(H')) mod P,
where n is the length of B and + is exclusive or. So the new checksum carries the old one on: a bit of the body that
flips in our memory makes the target refuse the batch, where a recomputed checksum would sign it as good.
"""

from __future__ import annotations

from array import array

from crc32c import crc32c

#: Castagnoli's polynomial, reflected: bit 31 stands for x^0.
_POLYNOMIAL, _ONE = 0x82F63B78, 1 << 31
#: To go on with a checksum over n zeros multiplies it by x^8n. Over so few that costs least.
_ZERO_BITS = 14
_ZEROS = memoryview(bytes(1 << _ZERO_BITS))
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
        new: of the new header alone, which is as long.
        length: of the body.
    """
    zeros = _ZEROS[: length & len(_ZEROS) - 1]
    moved = crc32c(zeros, old) ^ crc32c(zeros, new)
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
