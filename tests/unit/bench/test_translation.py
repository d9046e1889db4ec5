from __future__ import annotations

from bench.translation import positions, records
from srm_common.domain.offsets.translation import Translated
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.state.segment_log import SegmentBatch
from srm_common.wire.state.segment_map import SegmentMap


def test_the_groups_stand_within_the_map_and_behind_a_hole() -> None:
    batch = SegmentBatch()
    for offset, (key, value) in enumerate(records(segments=60, partitions=12)):
        batch.put(key, value, offset)
    assert len(batch) == 60
    assert len(batch.segments) == 12
    maps = {place: SegmentMap(committed) for place, committed in batch.segments.items()}
    found = {
        position: maps[TopicPartition(position[0], position[1])].translate(position[2])
        for position in positions(count=500, segments=60, partitions=12, recent=0.5)
    }
    assert all(isinstance(answer, Translated) and answer.exact for answer in found.values())
    holes = {one[2] - answer.offset for one, answer in found.items() if isinstance(answer, Translated)}
    assert holes == {0, 1}
    assert sum(one[2] >= 4 * 5001 for one in found) > 200
