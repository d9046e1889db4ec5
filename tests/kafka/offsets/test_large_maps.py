"""Chunks whose offset map is larger than a broker takes in one batch."""

from __future__ import annotations

from srm_common.domain.runs.copying import CopyRange
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.chunk import Chunk
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.share import Share
from srm_common.testing import LocalKafka
from srm_common.wire.batches.batch import Packed
from srm_common.wire.state.segments import segment_partition
from tests.kafka.engine import Engine

RUNS = 400_000
CHUNK_BYTES = 1_000_000_000


def test_a_chunk_of_hundreds_of_thousands_of_runs_is_committed(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """All of the topic's source partitions here have their map in the same partition of the segments topic."""
    engine = Engine(source_kafka, target_kafka, name)
    state = engine.state
    home = segment_partition(name, 0, state.segments_partitions)
    partitions = [n for n in range(500) if segment_partition(name, n, state.segments_partitions) == home][:4]
    states = []
    for partition in partitions:
        one = RangeState(CopyRange(name, engine.copy_of(name), partition, 0, 3 * RUNS))
        runs = tuple((3 * number, 2, 2) for number in range(RUNS))
        one.share = Share(0, 3 * RUNS, 0)
        one.share.acknowledge(Packed(0, 0, 1, 2 * RUNS, b"", runs, 3 * RUNS, False), 0)
        one.share.bytes = CHUNK_BYTES
        states.append(one)
    with Ownership.take(engine.flow, 1, 1) as owner, ClusterLink(engine.flow.target) as link:

        async def work() -> None:
            await link.open([state.offsets_topic, state.segments_topic])
            producer = Producer(
                link, owner.identities[0], transactions_v2=True, transaction_timeout_ms=60_000, retry_seconds=60
            )
            await producer.start()
            chunk = Chunk(engine.job(), link, producer, Signal(link.loop))
            chunk.begin()
            await chunk.commit(states)

        link.run(work)
    assert [range_state.committed for range_state in states] == [3 * RUNS] * 4
    segments = engine.segments(name)
    assert sorted(segments) == partitions
    for (segment,) in segments.values():
        assert (segment.upstream_end, segment.downstream_end) == (3 * RUNS, 2 * RUNS)
        assert len(segment.runs) > 50_000
    assert {place: end for place, end in engine.committed().items() if place[0] == name} == {
        (name, partition): 3 * RUNS for partition in partitions
    }
