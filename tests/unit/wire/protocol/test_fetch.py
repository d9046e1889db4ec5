"""Fetch answers, against kafka-python's encoder and decoder of the same schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from srm_common.wire.protocol import fetch

Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData
Aborted = Partition.AbortedTransaction


def partition(index: int, records: bytes | None, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "partition_index": index,
        "error_code": 0,
        "high_watermark": 30,
        "last_stable_offset": 20,
        "log_start_offset": 10,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": records,
    }
    return Partition(**fields | more)


def encoded(topics: list[Any], throttle: int = 0, error: int = 0, version: int = fetch.VERSION_BY_NAME) -> memoryview:
    answer = FetchResponse(
        version=version, throttle_time_ms=throttle, error_code=error, session_id=77, responses=topics
    )
    return memoryview(bytes(answer.encode()))


def test_everything_an_answer_says() -> None:
    records = bytes(range(200))
    body = encoded(
        [
            Topic(
                topic="orders",
                partitions=[
                    partition(
                        0,
                        records,
                        aborted_transactions=[
                            Aborted(producer_id=5, first_offset=11),
                            Aborted(producer_id=1 << 40, first_offset=1 << 41),
                        ],
                    ),
                    partition(9, None, error_code=3, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1),
                ],
            ),
            Topic(topic="zahlungen-ü", partitions=[partition(2, b"", aborted_transactions=[])]),
        ],
        throttle=250,
    )
    answer = fetch.decode(body)
    assert (answer.throttle_time_ms, answer.error_code) == (250, 0)
    first, second, third = answer.partitions
    assert (first.topic, first.partition, first.error_code) == ("orders", 0, 0)
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (30, 20, 10)
    assert first.aborted == [(5, 11), (1 << 40, 1 << 41)]
    assert first.records == records
    assert (second.topic, second.partition, second.error_code) == ("orders", 9, 3)
    assert (second.aborted, len(second.records)) == ([], 0)
    assert (third.topic, third.partition, len(third.records)) == ("zahlungen-ü", 2, 0)


def test_an_error_of_the_whole_answer() -> None:
    assert fetch.decode(encoded([], error=70)) == fetch.FetchAnswer(0, 70, [])


def test_tagged_fields_are_stepped_over() -> None:
    # KIP-595's fields, which brokers send in version 12 when a leader's epoch diverges.
    diverging = Partition.EpochEndOffset(epoch=4, end_offset=1234)
    leader = Partition.LeaderIdAndEpoch(leader_id=3, leader_epoch=5)
    ones = [
        partition(0, b"abc", diverging_epoch=diverging, current_leader=leader),
        partition(1, b"defg"),
    ]
    answer = fetch.decode(
        encoded([Topic(topic="a", partitions=ones), Topic(topic="b", partitions=[partition(5, b"h")])])
    )
    assert [
        (fetched_partition.topic, fetched_partition.partition, bytes(fetched_partition.records))
        for fetched_partition in answer.partitions
    ] == [
        ("a", 0, b"abc"),
        ("a", 1, b"defg"),
        ("b", 5, b"h"),
    ]


def test_records_are_views_into_the_buffer() -> None:
    buffer = bytearray(encoded([Topic(topic="a", partitions=[partition(0, b"first"), partition(1, b"second")])]))
    before, after = fetch.decode(memoryview(buffer)).partitions
    at = buffer.index(b"first")
    buffer[at : at + 5] = b"FIRST"
    assert bytes(before.records) == b"FIRST"
    assert bytes(after.records) == b"second"


_OFFSETS = st.integers(-1, (1 << 63) - 1)
_PARTITIONS = st.builds(
    lambda index, code, offsets, aborted, records: partition(
        index,
        records,
        error_code=code,
        high_watermark=offsets[0],
        last_stable_offset=offsets[1],
        log_start_offset=offsets[2],
        aborted_transactions=None
        if aborted is None
        else [Aborted(producer_id=producer, first_offset=first) for producer, first in aborted],
    ),
    st.integers(0, 1 << 20),
    st.integers(-1, 130),
    st.tuples(_OFFSETS, _OFFSETS, _OFFSETS),
    st.one_of(st.none(), st.lists(st.tuples(_OFFSETS, _OFFSETS), max_size=200)),
    st.one_of(st.none(), st.binary(max_size=300), st.just(b"x" * 20_000)),
)
_TOPICS = st.lists(
    st.builds(
        lambda name, partitions: Topic(topic=name, partitions=partitions),
        st.text(min_size=1, max_size=200),
        st.lists(_PARTITIONS, max_size=4),
    ),
    max_size=3,
)


@given(
    _TOPICS,
    st.integers(0, 1 << 30),
    st.sampled_from([fetch.OLDEST_VERSION, fetch.VERSION_BY_NAME, fetch.VERSION_BY_ID]),
)
def test_any_answer_is_read_as_the_library_reads_it(topics: list[Any], throttle: int, version: int) -> None:
    names = {}
    for number, topic in enumerate(topics, 1):
        topic.topic_id = UUID(int=number)
        names[topic.topic_id.bytes] = topic.topic
    body = encoded(topics, throttle, version=version)
    theirs = FetchResponse.decode(bytes(body), version=version)
    by_id = version == fetch.VERSION_BY_ID
    ours = fetch.decode_fixed(body) if version == fetch.OLDEST_VERSION else fetch.decode(body, names if by_id else None)
    assert ours.throttle_time_ms == theirs.throttle_time_ms
    assert [
        fetched_partition._replace(records=memoryview(bytes(fetched_partition.records)))
        for fetched_partition in ours.partitions
    ] == [
        fetch.FetchedPartition(
            names[topic.topic_id.bytes] if by_id else topic.topic,
            one.partition_index,
            one.error_code,
            one.high_watermark,
            one.last_stable_offset,
            one.log_start_offset,
            [(x.producer_id, x.first_offset) for x in one.aborted_transactions or ()],
            memoryview(bytes(one.records or b"")),
        )
        for topic in theirs.responses
        for one in topic.partitions
    ]


def test_a_topic_that_was_not_asked_for_is_no_answer() -> None:
    body = encoded([Topic(topic_id=UUID(int=2), partitions=[partition(0, b"")])], version=fetch.VERSION_BY_ID)
    with pytest.raises(ValueError, match="not asked for"):
        fetch.decode(body, {UUID(int=1).bytes: "orders"})


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda body: body[:14] + b"\xff\xff" + body[16:], "has no name"),
        (lambda body: body[:-1], "cut off"),
    ],
)
def test_a_damaged_answer_of_the_oldest_version(damage: Callable[[bytes], bytes], what: str) -> None:
    body = bytes(encoded([Topic(topic="a", partitions=[partition(0, b"records")])], version=fetch.OLDEST_VERSION))
    with pytest.raises(ValueError, match=what):
        fetch.decode_fixed(memoryview(damage(body)))


def test_a_preferred_replica_and_a_diverging_log_are_told() -> None:
    diverging = Partition.EpochEndOffset(epoch=4, end_offset=1234)
    leader = Partition.LeaderIdAndEpoch(leader_id=3, leader_epoch=5)
    ones = [
        partition(0, b"", preferred_read_replica=7),
        partition(1, b"", diverging_epoch=diverging, current_leader=leader),
        partition(2, b"", current_leader=leader),
    ]
    answer = fetch.decode(encoded([Topic(topic="a", partitions=ones)]))
    assert [
        (fetched_partition.preferred_replica, fetched_partition.diverging) for fetched_partition in answer.partitions
    ] == [
        (7, None),
        (-1, (4, 1234)),
        (-1, None),
    ]
