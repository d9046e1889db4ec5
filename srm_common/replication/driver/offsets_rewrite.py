"""Source offsets that only readers without read_committed would believe.

MirrorMaker 2 without exactly-once support reads its offsets topic read_uncommitted. It believes the offset of a
transaction that was aborted, and leaves out the records which that one would have copied (measured: ten records lost
after one kill). Before a flow is handed to it, the committed offsets are said once more.
"""

from __future__ import annotations

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.librdkafka import LATEST
from srm_common.kafka.state.source_offsets import STABLE_WITHIN_SECONDS, read_source_offsets
from srm_common.kafka.state.state_reader import StateReader, last_of_each_key
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.kafka.state.state_writer import NewRecord
from srm_common.wire.mm2 import SOURCE_CONNECTOR, epoch_headers, parse_source_offset_key, partition_for


def rewritten_offsets(
    flow: FlowSettings, state: StateTopics, stable_within_seconds: float | None = STABLE_WITHIN_SECONDS
) -> list[NewRecord]:
    """The records that make the last one of each source offset's key a committed one; keys that were never committed
    get a tombstone. None where no aborted record is the last one of its key.

    Args:
        stable_within_seconds: how long to wait for the end of open transactions; None takes them for aborted ones.

    Raises:
        StateUnavailable: one is still open.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    epochs = read_source_offsets(flow, state, stable_within_seconds=stable_within_seconds, refuse_loss=False).epochs
    topic, partitions = state.offsets_topic, range(state.offsets_partitions)
    with StateReader(flow.target) as reader, StateReader(flow.target, committed=False) as everything:
        ends = (
            reader.offsets(topic, partitions, LATEST)
            if stable_within_seconds is None
            else reader.stable_ends(topic, partitions, stable_within_seconds)
        )
        committed = reader.newest(topic, ends)
        marks = everything.offsets(topic, partitions, LATEST, committed=False)
        seen = last_of_each_key(everything.read(topic, ends=marks))
    found: list[NewRecord] = []
    for key, last in seen.items():
        parsed = parse_source_offset_key(key)
        if parsed is None or parsed[1] != flow.name.source:
            continue
        sure = committed.get(key)
        if sure is None or sure.offset != last.offset or sure.partition != last.partition:
            value = None if sure is None else sure.value
            headers = (
                epoch_headers(epochs.get(TopicPartition(*parsed[2:]), -1)) if parsed[0] == SOURCE_CONNECTOR else ()
            )
            home = partition_for(key, state.offsets_partitions)
            found.append(NewRecord(topic, home, key, value, headers=headers))
    return found
