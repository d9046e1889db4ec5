"""The offset syncs of a flow, MirrorMaker 2's and ours, as they lie in the offset-syncs topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from srm_common.domain.offsets.counting import current_syncs
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.errors import CorruptRecord
from srm_common.kafka.compacted import LATEST, StateReader
from srm_common.kafka.long_topic import records_between
from srm_common.wire.mm2 import decode_offset_sync

Partition = tuple[str, int]


def read_syncs(reader: StateReader, topic: str, places: Collection[Partition]) -> dict[Partition, list[OffsetSync]]:
    """What the syncs of these source partitions say now, ordered by upstream offset.

    Records that nobody can read are passed over, and so is what lies outside of the one partition that
    MirrorMaker 2 uses. A topic that does not exist holds nothing.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    written: dict[Partition, list[OffsetSync]] = defaultdict(list)
    if reader.partitions(topic):
        ends = reader.offsets(topic, [0], LATEST)
        for record in records_between(reader, topic, {}, ends):
            try:
                sync = decode_offset_sync(record.key, record.value)
            except CorruptRecord:
                continue
            if (sync.topic, sync.partition) in places:
                written[sync.topic, sync.partition].append(sync)
    return {place: current_syncs(found) for place, found in written.items()}
