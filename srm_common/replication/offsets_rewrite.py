"""Before a flow is handed to a reader that is not read_committed: say the committed source offsets once more.

MirrorMaker 2 without exactly-once support reads its offsets topic read_uncommitted. It believes the offset of a
transaction that was aborted, and leaves out the records which that one would have copied (measured: ten records lost
after one kill).
"""

from __future__ import annotations

from srm_common.domain.flow import FlowSettings
from srm_common.kafka.compacted import LATEST, StateReader, last_of_each_key
from srm_common.kafka.source_offsets import STABLE_WITHIN_SECONDS
from srm_common.kafka.state_topics import StateTopics
from srm_common.kafka.state_writer import NewRecord
from srm_common.replication.ownership import Ownership
from srm_common.replication.state_transaction import write_transaction
from srm_common.wire.mm2 import parse_source_offset_key
from srm_common.wire.murmur2 import partition_for

Entry = tuple[bytes, bytes | None]


def rewrite_offsets(flow: FlowSettings, owner: Ownership, state: StateTopics) -> int:
    """Make the last record of each source offset's key a committed one, also for who does not ask for that.

    One transaction of the flow's first slot, whose identity ``owner`` holds: a run that takes the flow meanwhile makes
    it fail, so that a newer offset is never overwritten. Keys that were never committed get a tombstone.

    Returns:
        How many keys were written; 0 when no aborted record was the last one of its key.

    Raises:
        Fenced: another run took the flow.
        StateUnavailable: the target was not able to; nothing is lost, do it again.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    entries = doubtful_offsets(flow, state)
    if entries:
        write_entries(flow, owner, state, entries)
    return len(entries)


def write_entries(flow: FlowSettings, owner: Ownership, state: StateTopics, entries: list[Entry]) -> None:
    """Write keys and values to the flow's offsets topic in one transaction; raises as :func:`rewrite_offsets`."""
    topic, partitions = state.offsets_topic, state.offsets_partitions
    write_transaction(
        flow, owner, [NewRecord(topic, partition_for(key, partitions), key, value) for key, value in entries]
    )


def doubtful_offsets(
    flow: FlowSettings, state: StateTopics, stable_within_seconds: float | None = STABLE_WITHIN_SECONDS
) -> list[Entry]:
    """Keys of the flow whose last record is not committed, with the value that is (None: there is none).

    Args:
        stable_within_seconds: how long to wait for the end of open transactions; None takes them for aborted ones.

    Raises:
        StateUnavailable: one is still open.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    topic, partitions = state.offsets_topic, range(state.offsets_partitions)
    with StateReader(flow.target) as reader, StateReader(flow.target, committed=False) as everything:
        ends = (
            reader.offsets(topic, partitions, LATEST)
            if stable_within_seconds is None
            else reader.stable_ends(topic, partitions, stable_within_seconds)
        )
        committed = last_of_each_key(reader.read(topic, ends=ends))
        seen = last_of_each_key(
            everything.read(topic, ends=everything.offsets(topic, partitions, LATEST, committed=False))
        )
    found: list[Entry] = []
    for key, last in seen.items():
        parsed = parse_source_offset_key(key)
        if parsed is None or parsed[1] != flow.name.source:
            continue
        sure = committed.get(key)
        if sure is None or sure.offset != last.offset or sure.partition != last.partition:
            found.append((key, None if sure is None else sure.value))
    return found
