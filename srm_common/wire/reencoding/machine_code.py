"""What compiled loops take from the processor: copies of sixteen bytes at a time, and its instruction for CRC-32C.

Each is a plain Python function, for loops that run as they are, and an ``overload`` that numba compiles in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import crc32c as library
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

#: What :func:`spill` may write, and read, beyond the end.
SPILLED = 16
#: From here on the library's copy is quicker than a loop.
_LONG = 256


def put(out: Bytes, at: int, data: Bytes, start: int, length: int) -> None:
    """Copy ``length`` bytes to ``at``; none for a negative length. Both arrays have to be that long."""
    if length > 0:
        out[at : at + length] = data[start : start + length]


def spill(out: Bytes, at: int, data: Bytes, start: int, length: int) -> None:
    """As :func:`put`, and up to :data:`SPILLED` bytes more where both arrays have them: quicker for a few bytes."""
    put(out, at, data, start, length)


def put_16(out: Bytes, at: int, data: Bytes, start: int) -> None:
    """Copy sixteen bytes, which both arrays have; all are read before the first is written."""
    out[at : at + 16] = data[start : start + 16]


def byte(data: Bytes, at: int) -> int:
    """The byte at ``at``, which is within the array. Otherwise numba asks first whether an index is negative, and makes
    of a byte a number without a sign, and a fraction of that together with numbers that have one."""
    return int(data[at])


def two_bytes(data: Bytes, at: int) -> int:
    """As :func:`byte`, a little-endian number of two."""
    return int(data[at]) | int(data[at + 1]) << 8


#: Bits that :func:`marked_bits` looks at, at most.
MARKED_AT_ONCE = 57


def marked_bits(marked: Bytes, start: int, count: int) -> int:
    """Of bits that lie in bytes, the lowest one first, those from ``start`` on, no more than :data:`MARKED_AT_ONCE`.
    The array has to have eight bytes from the first one's on."""
    return int.from_bytes(marked[start >> 3 : (start >> 3) + 8].tobytes(), "little") >> (start & 7) & (1 << count) - 1


def has_crc32c() -> bool:
    """Whether compiled loops may use :func:`crc32c`: the processor has the instruction."""
    return False


def crc32c(data: Bytes, at: int, end: int) -> int:
    """The CRC-32C of the bytes from ``at`` to ``end`` (exclusive), where :func:`has_crc32c` says so."""
    raise NotImplementedError


def crc32c_of_both(data: Bytes, at: int, body: int, end: int) -> tuple[int, int]:
    """The CRC-32C of the bytes from ``at`` to ``end`` (exclusive), and that of those from ``body`` on, in one pass
    over them, where :func:`has_crc32c` says so."""
    raise NotImplementedError


#: Whether :func:`has_crc32c` is true in compiled loops.
HAS_CRC32C = False
#: Three stretches of so many bytes at a time: the instruction takes three cycles, and one can begin in each.
_STRETCH = 512


def _moved_on() -> npt.NDArray[np.int64]:
    """By place and value of a byte of a checksum (not inverted): what it comes to after a stretch of zeros."""
    zeros = bytes(_STRETCH)
    one_byte = [library.crc32c(zeros, value << 8 * place ^ _ONES) ^ _ONES for place in range(4) for value in range(256)]
    return np.array(one_byte, np.int64)


_ONES = 0xFFFFFFFF

try:
    from llvmlite import binding, ir
    from numba import njit, types
    from numba.core import cgutils, config
    from numba.extending import intrinsic, overload
except ImportError:
    pass
else:
    _WORD = ir.IntType(64)
    _raw_copy: Any = cgutils.raw_memcpy
    _compiles_for: Any = config

    def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
        """The address of a byte of an array, without the reference that ``array.ctypes`` would count."""
        return builder.gep(context.make_array(kind)(context, builder, array).data, [at])

    def _copier(value: Any) -> Any:
        """An intrinsic that copies one value of a type of LLVM's between places in arrays, aligned or not."""

        @intrinsic
        def copy(_context: Any, out: Any, _at: Any, data: Any, _start: Any) -> tuple[Any, Callable[..., Any]]:
            def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                to = _place(context, builder, out, *arguments[:2])
                source = _place(context, builder, data, *arguments[2:])
                pointer = value.as_pointer()
                content = builder.load(builder.bitcast(source, pointer), align=1)
                builder.store(content, builder.bitcast(to, pointer), align=1)
                return context.get_dummy_value()

            return types.void(out, types.intp, data, types.intp), code

        return copy

    _copy_16 = _copier(ir.VectorType(ir.IntType(8), 16))
    _copy_8 = _copier(_WORD)

    def _read_8_type(_context: Any, data: Any, _at: Any) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.zext(builder.load(_place(context, builder, data, *arguments)), _WORD)

        return types.int64(data, types.intp), code

    _read_8: Any = intrinsic(_read_8_type)

    @overload(byte)
    def _byte(data: Any, at: Any) -> Callable[..., int]:
        def compiled(data: Any, at: Any) -> Any:
            return _read_8(data, at)

        return compiled

    @overload(two_bytes)
    def _two_bytes(data: Any, at: Any) -> Callable[..., int]:
        def compiled(data: Any, at: Any) -> Any:
            return _read_8(data, at) | _read_8(data, at + 1) << 8

        return compiled

    def _read_64_type(_context: Any, data: Any, _at: Any) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = builder.bitcast(_place(context, builder, data, *arguments), _WORD.as_pointer())
            word = builder.load(place, align=1)
            return word if sys.byteorder == "little" else builder.bswap(word)

        return types.int64(data, types.intp), code

    _read_64: Any = intrinsic(_read_64_type)

    @overload(marked_bits)
    def _marked_bits(marked: Any, start: Any, count: Any) -> Callable[..., int]:
        def compiled(marked: Any, start: Any, count: Any) -> Any:
            return _read_64(marked, start >> 3) >> (start & 7) & (1 << count) - 1

        return compiled

    def _copy_type(
        _context: Any, out: Any, _at: Any, data: Any, _start: Any, _length: Any
    ) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            to = _place(context, builder, out, *arguments[:2])
            source = _place(context, builder, data, *arguments[2:4])
            _raw_copy(builder, to, source, arguments[4], 1)
            return context.get_dummy_value()

        return types.void(out, types.intp, data, types.intp, types.intp), code

    _copy: Any = intrinsic(_copy_type)

    @overload(put)
    def _put(out: Any, at: Any, data: Any, start: Any, length: Any) -> Callable[..., None]:
        def compiled(out: Any, at: Any, data: Any, start: Any, length: Any) -> None:
            if length > _LONG:
                _copy(out, at, data, start, length)
            elif length >= 16:
                place = 0
                while place < length - 16:
                    _copy_16(out, at + place, data, start + place)
                    place += 16
                _copy_16(out, at + length - 16, data, start + length - 16)
            elif length >= 8:
                _copy_8(out, at, data, start)
                _copy_8(out, at + length - 8, data, start + length - 8)
            else:
                for byte in range(length):
                    out[at + byte] = data[start + byte]

        return compiled

    @overload(put_16)
    def _put_16(out: Any, at: Any, data: Any, start: Any) -> Callable[..., None]:
        def compiled(out: Any, at: Any, data: Any, start: Any) -> None:
            _copy_16(out, at, data, start)

        return compiled

    @overload(spill)
    def _spill(out: Any, at: Any, data: Any, start: Any, length: Any) -> Callable[..., None]:
        def compiled(out: Any, at: Any, data: Any, start: Any, length: Any) -> None:
            if at + length + SPILLED <= len(out) and start + length + SPILLED <= len(data):
                place = 0
                while place < length:
                    _copy_16(out, at + place, data, start + place)
                    place += 16
            else:
                for byte in range(length):
                    out[at + byte] = data[start + byte]

        return compiled

    #: numba compiles for this processor unless it is told another one.
    HAS_CRC32C = (
        binding.get_default_triple().startswith("x86_64")
        and _compiles_for.CPU_NAME is None
        and _compiles_for.CPU_FEATURES is None
        and bool(binding.get_host_cpu_features().get("sse4.2"))
    )

    def _crc_8_type(_context: Any, _crc: Any, data: Any, _at: Any) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, data, *arguments[1:])
            word = builder.load(builder.bitcast(place, _WORD.as_pointer()), align=1)
            kind = ir.FunctionType(_WORD, [_WORD, _WORD])
            step = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind)
            return builder.call(step, [arguments[0], word])

        return types.int64(types.int64, data, types.intp), code

    _crc_8: Any = intrinsic(_crc_8_type)

    def _crc_1_type(_context: Any, _crc: Any, _byte: Any) -> tuple[Any, Callable[..., Any]]:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            half, byte = ir.IntType(32), ir.IntType(8)
            step = builder.module.declare_intrinsic(
                "llvm.x86.sse42.crc32.32.8", (), ir.FunctionType(half, [half, byte])
            )
            return builder.zext(builder.call(step, [builder.trunc(arguments[0], half), arguments[1]]), _WORD)

        return types.int64(types.int64, types.uint8), code

    _crc_1: Any = intrinsic(_crc_1_type)

    @overload(has_crc32c)
    def _has_crc32c() -> Callable[..., bool]:
        # A constant to the compiler, which leaves the other branch out.
        return (lambda: True) if HAS_CRC32C else (lambda: False)

    _MOVED_ON = _moved_on()

    @njit
    def _behind_zeros(crc: Any) -> Any:
        return (
            _MOVED_ON[crc & 255]
            ^ _MOVED_ON[256 + (crc >> 8 & 255)]
            ^ _MOVED_ON[512 + (crc >> 16 & 255)]
            ^ _MOVED_ON[768 + (crc >> 24)]
        )

    @overload(crc32c)
    def _crc32c(data: Any, at: Any, end: Any) -> Callable[..., int]:
        def compiled(data: Any, at: Any, end: Any) -> Any:
            crc = _ONES
            while end - at >= 3 * _STRETCH:
                second = third = 0
                for place in range(at, at + _STRETCH, 8):
                    crc = _crc_8(crc, data, place)
                    second = _crc_8(second, data, place + _STRETCH)
                    third = _crc_8(third, data, place + 2 * _STRETCH)
                crc = _behind_zeros(_behind_zeros(crc) ^ second) ^ third
                at += 3 * _STRETCH
            words = at + (end - at) // 8 * 8
            while at < words:
                crc = _crc_8(crc, data, at)
                at += 8
            while at < end:
                crc = _crc_1(crc, data[at])
                at += 1
            return crc ^ _ONES

        def none(data: Any, at: Any, end: Any) -> Any:
            return 0

        return compiled if HAS_CRC32C else none

    @overload(crc32c_of_both)
    def _crc32c_of_both(data: Any, at: Any, body: Any, end: Any) -> Callable[..., tuple[int, int]]:
        def compiled(data: Any, at: Any, body: Any, end: Any) -> Any:
            crc = _ONES
            while at < body - 7:
                crc = _crc_8(crc, data, at)
                at += 8
            while at < body:
                crc = _crc_1(crc, data[at])
                at += 1
            own = _ONES
            while end - at >= 3 * _STRETCH:
                second = third = 0
                for place in range(at, at + _STRETCH, 8):
                    crc = _crc_8(crc, data, place)
                    own = _crc_8(own, data, place)
                    second = _crc_8(second, data, place + _STRETCH)
                    third = _crc_8(third, data, place + 2 * _STRETCH)
                crc = _behind_zeros(_behind_zeros(crc) ^ second) ^ third
                own = _behind_zeros(_behind_zeros(own) ^ second) ^ third
                at += 3 * _STRETCH
            while at < end - 7:
                crc = _crc_8(crc, data, at)
                own = _crc_8(own, data, at)
                at += 8
            while at < end:
                crc = _crc_1(crc, data[at])
                own = _crc_1(own, data[at])
                at += 1
            return crc ^ _ONES, own ^ _ONES

        def none(data: Any, at: Any, body: Any, end: Any) -> Any:
            return 0, 0

        return compiled if HAS_CRC32C else none
