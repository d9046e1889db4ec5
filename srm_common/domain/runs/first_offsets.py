"""First offsets that an operator or the opposite flow names, checked against the log; a sentence where they cannot
be."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.runs.partition_track import PartitionTrack


def explicit_offset(track: PartitionTrack, where: StartPosition, start: int, why: str) -> int | str:
    offset, end = where.offset(track.partition) or 0, listed_end(track)
    if start <= offset <= end:
        return offset
    return (
        f"{track.upstream_topic}-{track.partition} cannot start at offset {offset} ({why}): its log has the offsets "
        f"{start} to {end}; change start.positions"
    )


def offset_behind_copied(copied: int | str, track: PartitionTrack, starts: Mapping[tuple[str, int], int]) -> int | str:
    """Where the records begin that the opposite flow did not bring, as far as they are still there."""
    if isinstance(copied, int) and copied > listed_end(track):
        return (
            f"{track.upstream_topic}-{track.partition} cannot start where the opposite flow ended, at {copied}: its "
            f"log ends at {listed_end(track)}, so it was truncated or created again; change start.positions"
        )
    return copied if isinstance(copied, str) else max(copied, starts[track.place])


def listed_end(track: PartitionTrack) -> int:
    if track.end is None:
        raise ValueError(f"{track.upstream_topic}-{track.partition} has no listed end")
    return track.end
