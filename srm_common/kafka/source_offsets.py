"""The committed source offsets of a flow, from ``mm2-offsets.<source>.internal``."""

from __future__ import annotations

from srm_common.domain import names
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import CorruptRecord, StateTopicInvalid
from srm_common.kafka.compacted import LATEST, LogRecord, StateReader, last_of_each_key
from srm_common.kafka.state_topics import StateTopics
from srm_common.wire.mm2 import SOURCE_CONNECTOR, parse_source_offset_key, parse_source_offset_value
from srm_common.wire.murmur2 import partition_for

STABLE_WITHIN_SECONDS = 10.0

Partition = tuple[str, int]


class SourceOffsets(dict[Partition, int]):
    """(upstream topic, partition) -> next offset to copy. Partitions without a position are absent.

    ``faults`` has the partitions whose record cannot be read: they must not be copied until it is mended.
    ``resets`` are those whose record says "no position": somebody wants them copied from their start.
    """

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[Partition, CorruptRecord] = {}
        self.resets: set[Partition] = set()


def read_source_offsets(
    flow: FlowSettings,
    state: StateTopics,
    *,
    stable_within_seconds: float | None = STABLE_WITHIN_SECONDS,
    refuse_loss: bool = True,
    connector: str = SOURCE_CONNECTOR,
) -> SourceOffsets:
    """What the flow has committed, MirrorMaker 2's own commits included.

    A tombstone means "no position" (start over), as in MirrorMaker 2. Call it after fencing: before, an open
    transaction of an earlier run may hide what is committed.

    Args:
        stable_within_seconds: how long to wait for the end of open transactions; None reads what is stable now, for
            who only wants to look.
        refuse_loss: False for who is about to rebuild what was lost.
        connector: whose offsets; a MirrorMaker 2 in a Connect cluster may have any name.

    Raises:
        StateUnavailable: a partition of the topic cannot be read to its end in time.
        StateTopicInvalid: the topic holds nothing of this flow, although the offset map proves that it has copied.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    topic = state.offsets_topic
    with StateReader(flow.target) as reader:
        partitions = range(state.offsets_partitions)
        if stable_within_seconds is None:
            ends = reader.offsets(topic, partitions, LATEST)
        else:
            ends = reader.stable_ends(topic, partitions, stable_within_seconds)
        records = [
            record
            for record in last_of_each_key(_by_home(reader.read(topic, ends=ends), state)).values()
            if record.key is not None
        ]
        out = SourceOffsets()
        entries = 0
        for record in records:
            parsed = parse_source_offset_key(record.key)
            if parsed is None or parsed[:2] != (connector, flow.name.source):
                continue
            entries += 1
            _, _, upstream_topic, partition = parsed
            try:
                last = parse_source_offset_value(record.value)
            except CorruptRecord as error:
                out.faults[upstream_topic, partition] = CorruptRecord(
                    f"the source offset of {upstream_topic}-{partition} cannot be read: at offset {record.offset} of "
                    f"{topic}-{record.partition} on cluster '{flow.target.alias}', {error}; write a valid value, or "
                    f"a tombstone to copy the partition from its start, with the key {_text(record.key)}"
                )
                continue
            if last is None:
                out.resets.add((upstream_topic, partition))
            else:
                out[upstream_topic, partition] = last + 1
        copied = _live_segments(state, reader) if refuse_loss and not entries else 0
    if copied:
        # Unless the very first commit came between the two looks.
        out = read_source_offsets(flow, state, stable_within_seconds=stable_within_seconds, refuse_loss=False)
        if not (out or out.faults or out.resets):
            raise _lost(flow, state, copied)
    return out


def committed_places(reader: StateReader, flow: FlowName) -> set[Partition]:
    """The partitions of which ``flow`` has copied something, as far as its offsets topic can be read now.

    Args:
        reader: of the flow's target.
    """
    topic = names.offsets_topic(flow.source)
    found = set()
    for record in last_of_each_key(reader.read(topic) if reader.partitions(topic) else []).values():
        parsed = parse_source_offset_key(record.key)
        if parsed is not None and parsed[:2] == (SOURCE_CONNECTOR, flow.source) and record.value is not None:
            found.add(parsed[2:])
    return found


def next_offsets(reader: StateReader, flow: FlowName) -> dict[Partition, int]:
    """The next offsets of ``flow``, as far as its offsets topic can be read now; what cannot is left out.

    Args:
        reader: of the flow's target.
    """
    topic = names.offsets_topic(flow.source)
    out = {}
    for record in last_of_each_key(reader.read(topic) if reader.partitions(topic) else []).values():
        parsed = parse_source_offset_key(record.key)
        if parsed is None or parsed[:2] != (SOURCE_CONNECTOR, flow.source):
            continue
        try:
            last = parse_source_offset_value(record.value)
        except CorruptRecord:
            continue
        if last is not None:
            out[parsed[2:]] = last + 1
    return out


def _by_home(records: list[LogRecord], state: StateTopics) -> list[LogRecord]:
    """Records in the partition their key belongs to come last, so that they win.

    Strays exist where the topic was given more partitions: the key's new home is the newer truth.
    """
    count = state.offsets_partitions
    return sorted(
        records, key=lambda record: record.key is not None and partition_for(record.key, count) == record.partition
    )


def _live_segments(state: StateTopics, reader: StateReader) -> int:
    records = last_of_each_key(reader.read(state.segments_topic)).values()
    return sum(record.value is not None for record in records)


def _lost(flow: FlowSettings, state: StateTopics, segments: int) -> StateTopicInvalid:
    return StateTopicInvalid(
        f"state topic {state.offsets_topic} on cluster '{flow.target.alias}' holds no offsets of flow "
        f"{flow.name}, although the map in {state.segments_topic} ({segments} segments) proves that it has "
        f"copied data: its records were lost, and going on would copy everything again; rebuild it with: "
        f"srm-control repair --flow '{flow.name}'"
    )


def _text(key: bytes | None) -> str:
    return (key or b"").decode(errors="backslashreplace")
