from __future__ import annotations

from srm_common.domain.topic_partition import TopicPartition
from srm_common.usecases.offsets.backlog import Uncopied


def test_what_is_left_is_named() -> None:
    assert str(Uncopied({}, {}, {})) == ""
    assert str(Uncopied({}, {}, {TopicPartition("t", 1): 5})) == "5 offsets of t-1 are not copied yet"
    several = Uncopied({}, {}, {TopicPartition("t", 1): 5, TopicPartition("u", 0): 7})
    assert str(several) == "12 offsets of 2 partitions are not copied yet, 7 of them of u-0"
