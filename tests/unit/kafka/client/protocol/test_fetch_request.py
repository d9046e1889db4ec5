"""What a broker is asked for: in the order of the partitions, as Java's consumer writes it without a session."""

from __future__ import annotations

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.library import FetchRequest
from srm_common.kafka.client.protocol.fetch_request import FetchFrom, fetch_request


def test_partitions_keep_their_order_topic_by_topic() -> None:
    wanted = [
        FetchFrom("b", 1, 7, leader_epoch=3, last_epoch=2),
        FetchFrom(*TopicPartition("a", 0), 5),
        FetchFrom("b", 0, 9),
    ]
    request = fetch_request(
        iter(wanted), partition_bytes=10, max_bytes=30, max_wait_ms=20, committed=True, rack="north"
    )
    again = FetchRequest.decode(request.encode(version=12), version=12)
    assert [(topic.topic, [part.partition for part in topic.partitions]) for topic in again.topics] == [
        ("b", [1, 0]),
        ("a", [0]),
    ]
    first, second = again.topics[0].partitions
    assert (first.fetch_offset, first.current_leader_epoch, first.last_fetched_epoch) == (7, 3, 2)
    assert (second.fetch_offset, second.current_leader_epoch, second.last_fetched_epoch) == (9, -1, -1)
    assert (first.partition_max_bytes, first.log_start_offset) == (10, -1)
    assert (again.max_bytes, again.max_wait_ms, again.min_bytes, again.isolation_level) == (30, 20, 1, 1)
    assert (again.replica_id, again.session_id, again.session_epoch, again.rack_id) == (-1, 0, -1, "north")
    assert list(again.forgotten_topics_data) == []


def test_uncommitted_without_a_rack() -> None:
    request = fetch_request([], partition_bytes=1, max_bytes=1, max_wait_ms=1, committed=False)
    assert (request.isolation_level, request.rack_id, list(request.topics)) == (0, "", [])
