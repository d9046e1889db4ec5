"""Resolves start positions to offsets in the source's current logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from srm_common.domain.flow.start_position import StartKind, StartPosition
from srm_common.domain.runs.partition_track import PartitionTrack, explicit_offset, listed_end, offset_behind_copied
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.replication.driver.log_identity import Listed, Source

OppositeEnds = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int | str]]
"""Ends of what the flow in the other direction copied into these partitions; a sentence where that is not known. A
partition that it never wrote to is absent."""


def override_offsets(
    source: Source, override: StartPosition, tracks: list[PartitionTrack], starts: Mapping[TopicPartition, int]
) -> Listed:
    """Where a run's own start position begins in partitions with these log ``starts``, and a sentence for each where
    that is not known yet; both are empty for ``committed``."""
    if override.kind is StartKind.COMMITTED or not tracks:
        return {}, {}
    if override.kind is StartKind.EARLIEST:
        return {track.place: starts[track.place] for track in tracks if track.place in starts}, {}
    if override.kind is StartKind.LATEST:
        return {track.place: listed_end(track) for track in tracks}, {}
    return _at(source, tracks, override.timestamp_ms or 0)


def first_offsets(
    source: Source,
    rules: Mapping[TopicPartition, tuple[StartPosition, str]],
    otherwise: StartPosition,
    tracks: Mapping[TopicPartition, PartitionTrack],
    starts: Mapping[TopicPartition, int],
    opposite_ends: OppositeEnds,
    memory: SourceTopics,
) -> dict[TopicPartition, int | str]:
    """First offsets of partitions without progress; a sentence where the rule cannot be carried out.

    Args:
        rules: where each starts, and why.
        otherwise: for a partition that a rule with offsets does not name.
        memory: what the flow knows of the topics.
    """
    found: dict[TopicPartition, int | str] = {}
    times: dict[int, list[PartitionTrack]] = defaultdict(list)
    opposite = []
    for place, (where, why) in rules.items():
        track = tracks[place]
        if where.kind is StartKind.OFFSETS and where.offset(track.partition) is None:
            where = otherwise
        if where.kind is StartKind.LATEST:
            end = listed_end(track)
            # A log without records leaves nothing out.
            found[place] = _start_lost(place) if memory.start_lost(place.topic) and starts[place] < end else end
        elif where.kind is StartKind.TIMESTAMP:
            times[where.timestamp_ms or 0].append(track)
        elif where.kind is StartKind.OPPOSITE:
            opposite.append(place)
        elif where.kind is StartKind.OFFSETS:
            found[place] = explicit_offset(track, where, starts[place], why)
        else:
            found[place] = starts[place]
    for moment, some in times.items():
        found |= _at(source, some, moment)[0]
    if opposite:
        ends = opposite_ends(opposite)
        found |= {
            place: offset_behind_copied(ends.get(place, starts[place]), tracks[place], starts) for place in opposite
        }
    return found


def _start_lost(place: TopicPartition) -> str:
    return (
        f"{place} has no progress and started at 'latest', but the offset was lost with the flow's state, and the "
        f"current end would leave out what was written since; say where it starts with: srm-control source-offsets "
        f"reset --topic '{place.topic}' --partition {place.partition} --to earliest (or timestamp:<time>, or latest)"
    )


def _at(source: Source, tracks: Iterable[PartitionTrack], timestamp_ms: int) -> Listed:
    ends = {track.place: listed_end(track) for track in tracks}
    found, faults = source.at(list(ends), timestamp_ms)
    return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}, faults


def behind_opposite(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int | str | None]
) -> dict[TopicPartition, str]:
    """Partitions whose position is before the end of what the flow in the other direction wrote, each with a sentence.

    Args:
        ends: those ends, or why one is not known; None where that flow wrote nothing.
    """
    found = {}
    for (topic, partition), position in positions.items():
        place = TopicPartition(topic, partition)
        end = ends.get(place)
        if isinstance(end, str):
            found[place] = end
        elif end is not None and end > position:
            found[place] = (
                f"{topic}-{partition} was copied up to offset {position} before; since then the flow in the other "
                f"direction wrote up to {end}, and those records would be copied back; move past them with: "
                f"srm-control source-offsets reset --topic '{topic}' --to opposite"
            )
    return found
