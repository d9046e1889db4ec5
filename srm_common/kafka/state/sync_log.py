"""The offset syncs of a flow, MirrorMaker 2's and ours, in the offset-syncs topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from srm_common.domain.offsets.counting import current_syncs
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.wire.state.mm2 import decode_offset_sync

#: How many offsets of a long topic are read at a time; their records take about 30 MB of memory.
_WINDOW = 100_000


def read_syncs(
    reader: StateReader, topic: str, places: Collection[TopicPartition]
) -> dict[TopicPartition, list[OffsetSync]]:
    """The current offset syncs of these source partitions, ordered by upstream offset.

    Only the one partition that MirrorMaker 2 uses is read. A topic that does not exist has none.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    written: dict[TopicPartition, list[OffsetSync]] = defaultdict(list)
    with reader.session() as session:
        if session.partitions(topic):
            ends = session.offsets(topic, [0], LATEST)
            for sync in offset_syncs(records_between(session, topic, {}, ends)):
                if (sync.topic, sync.partition) in places:
                    written[TopicPartition(sync.topic, sync.partition)].append(sync)
    return {place: current_syncs(found) for place, found in written.items()}


def offset_syncs(records: Iterable[LogRecord]) -> Iterator[OffsetSync]:
    """The records decoded; those that are not offset syncs, which any client may have written, are skipped."""
    for record in records:
        try:
            sync = decode_offset_sync(record.key, record.value)
        except CorruptRecord:
            continue
        yield sync


def records_between(
    reader: StateReader, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[LogRecord]:
    """As :meth:`StateReader.read`, piece by piece, each partition's records in the order of its log."""
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
