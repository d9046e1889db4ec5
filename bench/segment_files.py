"""Counts what lies in a broker's log by walking the headers of its segment files.

The brokers run on this machine, so their files can be read where they are: no fetch, no broker time, exact.
Only the 61-byte header of each batch is looked at, and the type of control batches.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp,
# producer id, epoch, sequence, record count (record batch v2, KIP-98)
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_OVERHEAD = 12
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "codec 5", "codec 6", "codec 7")
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_ABORT = 0


@dataclass(frozen=True)
class LogContent:
    """What a read_committed consumer would get from some partitions, and how it is laid out.

    ``records`` leaves out aborted and open transactions. ``batches``, ``wire_bytes`` and what follows count data
    batches as they lie in the log. ``batches_with_holes`` have fewer records than offsets. ``end_offset`` is the
    offset after the last one; of several partitions, their sum.
    """

    records: int = 0
    aborted_records: int = 0
    open_records: int = 0
    batches: int = 0
    control_batches: int = 0
    wire_bytes: int = 0
    batches_with_holes: int = 0
    codecs: tuple[str, ...] = ()
    end_offset: int = 0

    def __add__(self, other: LogContent) -> LogContent:
        return LogContent(
            self.records + other.records,
            self.aborted_records + other.aborted_records,
            self.open_records + other.open_records,
            self.batches + other.batches,
            self.control_batches + other.control_batches,
            self.wire_bytes + other.wire_bytes,
            self.batches_with_holes + other.batches_with_holes,
            tuple(sorted({*self.codecs, *other.codecs})),
            self.end_offset + other.end_offset,
        )

    @property
    def records_per_batch(self) -> float:
        """Mean; 0 without batches."""
        return self.records / self.batches if self.batches else 0.0


def read_topics(log_directory: Path, topics: Iterable[str], partitions: int) -> LogContent:
    """All partitions of the topics in one broker's log directory. Raises FileNotFoundError when one is missing."""
    content = LogContent()
    for topic in topics:
        for partition in range(partitions):
            content += read_partition(log_directory / f"{topic}-{partition}")
    return content


def read_partition(folder: Path) -> LogContent:
    """One partition's segment files, in offset order."""
    segments = sorted(folder.glob("*.log"))
    if not segments:
        raise FileNotFoundError(f"{folder} has no log segment")
    walk = _Walk()
    for segment in segments:
        walk.read(segment)
    return walk.content()


class _Walk:
    """Running totals; transactional records wait for their marker."""

    def __init__(self) -> None:
        self._waiting: defaultdict[int, int] = defaultdict(int)
        self._codecs: set[int] = set()
        self._records = self._aborted = self._batches = self._control = self._bytes = self._holes = self._end = 0

    def read(self, segment: Path) -> None:
        size = os.path.getsize(segment)
        if size < _HEADER.size:
            return
        with segment.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = 0
            while position + _HEADER.size <= size:
                base, length, _, magic, _, attributes, last_delta, _, _, producer, _, _, count = _HEADER.unpack_from(
                    data, position
                )
                if length <= 0 or magic != 2:  # behind the end of a preallocated file, or a format we never write
                    break
                if attributes & _CONTROL:
                    self._marker(producer, data, position)
                else:
                    self._data(producer, attributes, last_delta, count, length)
                self._end = base + last_delta + 1
                position += length + _LENGTH_OVERHEAD

    def _data(self, producer: int, attributes: int, last_delta: int, count: int, length: int) -> None:
        self._batches += 1
        self._bytes += length + _LENGTH_OVERHEAD
        self._codecs.add(attributes & 7)
        self._holes += last_delta + 1 > count
        if attributes & _TRANSACTIONAL:
            self._waiting[producer] += count
        else:
            self._records += count

    def _marker(self, producer: int, data: mmap.mmap, position: int) -> None:
        """Key of a control record: version int16, type int16, after four one-byte varints and the length."""
        self._control += 1
        key = position + _HEADER.size + 5
        (kind,) = struct.unpack_from(">h", data, key + 2)
        count = self._waiting.pop(producer, 0)
        if kind == _ABORT:
            self._aborted += count
        else:
            self._records += count

    def content(self) -> LogContent:
        return LogContent(
            self._records,
            self._aborted,
            sum(self._waiting.values()),
            self._batches,
            self._control,
            self._bytes,
            self._holes,
            tuple(sorted(_CODECS[codec] for codec in self._codecs)),
            self._end,
        )
