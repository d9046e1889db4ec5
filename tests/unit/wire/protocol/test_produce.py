"""Produce requests, against kafka-python's encoder of the same schema."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from srm_common.wire.protocol import produce

VERSIONS = [9, 10, 11, 12]
Topics = dict[str, list[tuple[int, bytes]]]


def theirs(version: int, transactional_id: str | None, topics: Topics) -> bytes:
    kind = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        version=version,
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1234,
        topic_data=[
            kind(
                name=name,
                partition_data=[kind.PartitionProduceData(index=index, records=records) for index, records in ones],
            )
            for name, ones in topics.items()
        ],
    )
    request.with_header(correlation_id=99, client_id="srm-ü")
    return bytes(request.encode(framed=True, header=True))


def ours(version: int, transactional_id: str | None, topics: Topics, cut: int = 61) -> bytes:
    buffers = produce.encode(
        version=version,
        correlation_id=99,
        client_id="srm-ü",
        transactional_id=transactional_id,
        timeout_ms=1234,
        topics={
            name: [(index, (bytearray(records[:cut]), memoryview(records)[cut:])) for index, records in ones]
            for name, ones in topics.items()
        },
    )
    return b"".join(buffers)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "a-mm2-MirrorSourceConnector-0", ""])
def test_the_same_bytes_as_the_library(version: int, transactional_id: str | None) -> None:
    topics = {"orders": [(0, b"r" * 100), (3, b"s" * 20_000)], "päckchen": [(1, b"t" * 70)]}
    assert ours(version, transactional_id, topics) == theirs(version, transactional_id, topics)


@given(
    version=st.sampled_from(VERSIONS),
    transactional_id=st.one_of(st.none(), st.text(max_size=200)),
    topics=st.dictionaries(
        st.text(min_size=1, max_size=200),
        st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=400)), max_size=4),
        max_size=4,
    ),
    cut=st.integers(0, 100),
)
def test_any_request(version: int, transactional_id: str | None, topics: Topics, cut: int) -> None:
    assert ours(version, transactional_id, topics, cut) == theirs(version, transactional_id, topics)


@given(
    version=st.sampled_from(VERSIONS),
    topics=st.dictionaries(
        st.text(min_size=1, max_size=200), st.lists(st.integers(0, 1 << 20), max_size=200), min_size=1, max_size=4
    ),
    message=st.one_of(st.none(), st.text(max_size=100)),
)
def test_no_answer_is_smaller_than_what_is_waited_for(
    version: int, topics: dict[str, list[int]], message: str | None
) -> None:
    kind = ProduceResponse.TopicProduceResponse
    answer = ProduceResponse(
        version=version,
        responses=[
            kind(
                name=name,
                partition_responses=[
                    kind.PartitionProduceResponse(
                        index=one,
                        error_code=0,
                        base_offset=7,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=message,
                    )
                    for one in ones
                ],
            )
            for name, ones in topics.items()
        ],
        throttle_time_ms=0,
    )
    answer.with_header(correlation_id=99)
    size = len(answer.encode(framed=True, header=True))
    least = produce.answer_bytes({name: [(one, ()) for one in ones] for name, ones in topics.items()})
    assert least <= size
    if message is None and all(len(name.encode()) < 127 and len(name.encode()) == len(name) for name in topics):
        assert size - least <= len(topics)  # a longer count of partitions


def test_batches_stay_where_they_are() -> None:
    body = memoryview(bytearray(b"body" * 1000))
    buffers = produce.encode(
        version=11,
        correlation_id=1,
        client_id="c",
        transactional_id=None,
        timeout_ms=1,
        topics={"t": [(0, (bytearray(61), body))]},
    )
    assert any(buffer is body for buffer in buffers)
    (size,) = struct.unpack_from(">i", buffers[0])
    assert size == sum(map(len, buffers)) - 4
