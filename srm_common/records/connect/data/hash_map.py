"""Maps that iterate in the order of Java's ``HashMap``, since that is the order of keys in the JSON.

Connect reads objects without a schema into ``java.util.HashMap``: its order depends on the keys' hash codes, on the
size of its table, and, within a bucket, on the order of insertion. Trees are not imitated: buckets of nine or more keys
become trees in tables of 64 and more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from srm_common.records.connect.data.java_values import Float32, JavaDate, java_text

_TEXT = {str}
_DEFAULT_TABLE, _LARGEST_CHAIN, _SMALLEST_TREE_TABLE = 16, 8, 64


class JavaMap(dict[Any, Any]):
    """A ``LinkedHashMap``: entries in the order of insertion."""

    JAVA_NAME = "java.util.LinkedHashMap"
    __slots__ = ()

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values in Java's order."""
        return iter(self.items())

    def __str__(self) -> str:
        return "{" + ", ".join(f"{java_text(key)}={java_text(value)}" for key, value in self.entries()) + "}"


class HashMap(JavaMap):
    """A ``HashMap``. The dictionary itself keeps the order of insertion.

    Args:
        entries: inserted one after the other.
        table: the size of Java's table before the first one.
    """

    JAVA_NAME = "java.util.HashMap"
    __slots__ = ("_start",)

    def __init__(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), table: int = _DEFAULT_TABLE
    ) -> None:
        super().__init__(entries)
        self._start = table

    @classmethod
    def copy_of(cls, other: JavaMap) -> HashMap:
        """``new HashMap<>(other)``."""
        return cls(other.entries(), _table_for(int(len(other) / 0.75 + 1)) if other else _DEFAULT_TABLE)

    @classmethod
    def sized(cls, capacity: int) -> HashMap:
        """``new HashMap<>(capacity)``."""
        return cls((), _table_for(capacity))

    def entries(self) -> Iterator[tuple[Any, Any]]:
        keys = tuple(self)
        if len(keys) > 1:
            # Keys that are equal in Python, such as 1 and true, have different hash codes in Java.
            keys = (_order if set(map(type, keys)) == _TEXT else _in_order)(keys, self._start)
        return iter([(key, self[key]) for key in keys])


def hash_set(keys: Iterable[str]) -> tuple[str, ...]:
    """Strings in the order of a ``HashSet`` made from them."""
    unique = tuple(dict.fromkeys(keys))
    return _order(unique, _table_for(max(int(len(unique) / 0.75) + 1, _DEFAULT_TABLE)))


def _table_for(capacity: int) -> int:
    return 1 << max(0, capacity - 1).bit_length()


def _in_order(keys: tuple[Any, ...], table: int) -> tuple[Any, ...]:
    hashes = [_spread(key) for key in keys]
    for count in range(1, len(keys) + 1):
        newest = hashes[count - 1] & (table - 1)
        if count > _LARGEST_CHAIN and table < _SMALLEST_TREE_TABLE:
            others = sum(1 for one in hashes[: count - 1] if one & (table - 1) == newest)
            table *= 2 if others >= _LARGEST_CHAIN else 1
        if count > int(table * 0.75):
            table *= 2
    return tuple(key for _, key in sorted(zip(hashes, keys, strict=True), key=lambda one: one[0] & (table - 1)))


#: Records of a topic have few different sets of keys: the order of each is computed once.
_order = lru_cache(maxsize=4096)(_in_order)


def _spread(key: Any) -> int:
    code = _hash_code(key) & 0xFFFFFFFF
    return code ^ code >> 16


def _hash_code(key: Any) -> int:
    if isinstance(key, str):
        return string_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, JavaDate) or type(key) is int:
        bits = (key.millis if isinstance(key, JavaDate) else key) & 0xFFFFFFFFFFFFFFFF
        return bits ^ bits >> 32
    if isinstance(key, float):
        return _float_hash(key)
    return int(key) if isinstance(key, int) else 0


def _float_hash(key: float) -> int:

    if isinstance(key, Float32):
        return int.from_bytes(struct.pack(">f", key))
    bits = int.from_bytes(struct.pack(">d", key))
    return bits ^ bits >> 32


@lru_cache(maxsize=65536)
def string_hash(text: str) -> int:
    """``String.hashCode``, unsigned."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return code
