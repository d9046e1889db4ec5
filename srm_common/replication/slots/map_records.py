"""What a chunk adds to the offset map: one record for each partition of which it copied something."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.offsets.segments import Segment, build_segment, copied_before, exact_segments, in_a_row
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.share import Share
from srm_common.wire.batches.records import MAP_LEAST_BYTES, MAP_SHARE
from srm_common.wire.state.plain_records import Entry
from srm_common.wire.state.segments import encode_segment, headers_of, segment_headers, segment_key
from srm_common.wire.state.stored_runs import encode_stored


def map_records(state: RangeState, share: Share) -> list[Entry]:
    """What the chunk adds to the offset map of one partition, as records."""
    if not share.stored:
        return []
    (topic, partition), start, end, generation = state.upstream, state.mapped, share.upstream_end, state.spec.generation
    before = state.copied_to
    if state.transform is not None:
        return _records(
            in_a_row(exact_segments(topic, partition, start, end, share.runs, generation, share.fingerprint), before)
        )
    most = max(int(share.bytes * MAP_SHARE), MAP_LEAST_BYTES)
    value = encode_stored(start, end, generation, share.stored, most)
    if value is None:
        merged = build_segment(topic, partition, start, end, share.runs, most, generation, share.fingerprint)
        return _records(in_a_row([merged], before))
    place = share.stored[0][0]
    headers = headers_of(share.fingerprint, copied_before(before, place), start, place)
    return [(segment_key(topic, partition, start), value, headers)]


def _records(segments: Iterable[Segment]) -> list[Entry]:
    return [(*encode_segment(segment), segment_headers(segment)) for segment in segments]
