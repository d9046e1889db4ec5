"""A partition is the pair that it was: as a key, in order, in JSON, and where it crosses processes."""

from __future__ import annotations

import json
import pickle

from srm_common.domain.topic_partition import TopicPartition


def test_a_partition_is_a_pair() -> None:
    place = TopicPartition("orders", 2)
    pair: tuple[str, int] = place
    assert pair == ("orders", 2)
    assert {("orders", 2): 7}[pair] == {place: 7}[place]
    assert sorted([place, TopicPartition("orders", 0), TopicPartition("a", 9)])[0].topic == "a"
    assert json.dumps({"at": place}) == '{"at": ["orders", 2]}'
    assert pickle.loads(pickle.dumps(place)) == place
    assert f"partition {place}" == "partition orders-2"
