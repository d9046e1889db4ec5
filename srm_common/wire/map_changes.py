"""What keeps the map of one partition small: records to write to the segments topic, and keys to drop from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from srm_common.domain.offsets.segments import LEAST_SEGMENTS, MOST_BODY_BYTES, Candidate, groups, joined
from srm_common.errors import CorruptRecord
from srm_common.wire.segment_map import CommittedSegments, SegmentMap
from srm_common.wire.segments import encode_joined

#: So many stay as they are: groups that keep up stand there, and one chunk is decoded sooner.
_NEWEST = 4


@dataclass(slots=True)
class MapChanges:
    """``written`` are joined segments, key and value, which hold ``joined`` others. ``dropped`` are the keys of those,
    and of ``replaced`` ones that say nothing of the target's log any more; drop them after the first are written."""

    written: list[tuple[bytes, bytes]] = field(default_factory=list)
    dropped: list[bytes] = field(default_factory=list)
    joined: int = 0
    replaced: int = 0


def map_changes(
    committed: CommittedSegments, log_start: int, told: int, *, least: int = LEAST_SEGMENTS, newest: int = _NEWEST
) -> MapChanges:
    """What is to be done about one partition's segments.

    Args:
        log_start: the first offset of the copy that is still there.
        told: where those who read only what is new have read up to in the segments topic; later ones are not joined.
        least: fewer segments are not worth a record, unless they are large.
        newest: so many at the end of the map are not joined.
    """
    changes = MapChanges()
    known = SegmentMap(committed)
    gone = known.left_behind(log_start)
    live = {known.key(number) for number in range(gone, len(known))}
    changes.dropped += [key for key in committed.record_keys() if key not in live]
    changes.replaced = len(changes.dropped)
    for group in groups(_candidates(known, gone, told, newest), least):
        segment = joined([one.segment for one in group])
        changes.written.append(encode_joined(segment, known.place(group[-1].number)))
        changes.dropped += [known.key(one.number) for one in group]
        changes.joined += len(group)
    return changes


def _candidates(known: SegmentMap, first: int, told: int, newest: int) -> Iterator[Candidate | None]:
    for number in range(first, len(known) - newest):
        size = known.body_bytes(number)
        # Half of the most cannot be joined with its like any more, and is not decoded again at each round.
        if size > MOST_BODY_BYTES // 2 or known.place(number) >= told:
            yield None
            continue
        try:
            yield Candidate(number, known[number], size)
        except CorruptRecord:  # whoever translates by it tells
            yield None
