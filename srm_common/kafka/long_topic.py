"""State topics that are too long to be held in memory as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from srm_common.kafka.compacted import EARLIEST, LogRecord, StateReader

#: So many offsets are read at a time; their records take about 30 MB.
_WINDOW = 100_000


def records_between(
    reader: StateReader, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[LogRecord]:
    """As :meth:`StateReader.read`, piece by piece: a partition's records come in the order of its log."""
    if not ends:
        return
    earliest = reader.offsets(topic, ends, EARLIEST)
    at = {partition: max(earliest[partition], starts.get(partition, 0)) for partition in ends}
    while at := {partition: start for partition, start in at.items() if start < ends[partition]}:
        window: dict[int, int] = {}
        room = _WINDOW
        for partition, start in at.items():
            if room > 0:
                window[partition] = min(ends[partition], start + room)
                room -= window[partition] - start
        yield from reader.read(topic, at, window)
        at |= window
