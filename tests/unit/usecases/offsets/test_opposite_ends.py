"""Where a flow begins after the direction was reversed."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka import Producer

from srm_common.domain.flow import FlowName
from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.topic_partition import TopicPartition
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.opposite_ends import opposite_ends
from srm_common.wire.state.mm2 import partition_for, source_offset_key, source_offset_value
from tests.unit.usecases.fakes import Sides

PLACE = TopicPartition("orders", 0)


def ends(sides: Sides) -> dict[TopicPartition, int | str]:
    flow = sides.flow
    back = replace(flow, name=FlowName("b", "a"), source=flow.target, target=flow.source)
    with FlowClusters(back) as clusters:
        return opposite_ends(clusters, [PLACE])


def progress(sides: Sides, value: bytes) -> None:
    key = source_offset_key("a", "orders", 0)
    offsets = "mm2-offsets.a.internal"
    partitions = sides.clusters().target.reader.partitions(offsets)
    sides.target.write(offsets, [(key, value)], partition=partition_for(key, partitions))


def test_what_mirror_maker_2_copied_behind_the_map_is_not_sent_back(sides: Sides) -> None:
    sides.set(policy=IdentityReplicationPolicy())
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(10)])
    sides.refresh()
    assert sides.run().records == 10
    assert ends(sides) == {PLACE: 10}

    # The flow was handed back; MirrorMaker 2 copied five more, and the flow ran again when there was nothing new.
    more = [(b"k", b"%d" % number) for number in range(10, 15)]
    sides.source.write("orders", more)
    sides.target.write("orders", more)
    progress(sides, source_offset_value(14))
    assert sides.run("again").records == 0
    found = ends(sides)[PLACE]
    assert isinstance(found, str)
    assert "it is copied up to upstream offset 15, but its offset map ends at 10" in found
    assert "start.positions = orders=offsets:0=<offset>" in found

    # With new records the map tells again where the copy ends.
    sides.source.write("orders", [(b"k", b"new")])
    assert sides.run("new").records == 1
    assert ends(sides) == {PLACE: 17}


def test_what_was_not_to_be_copied_at_the_end_leaves_no_doubt(sides: Sides) -> None:
    """An aborted transaction leaves no segment; the flow writes down that the copy ends where it did."""
    sides.set(policy=IdentityReplicationPolicy())
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(10)])
    sides.refresh()
    assert sides.run().records == 10
    producer = Producer({"bootstrap.servers": sides.source.bootstrap_servers, "transactional.id": "till"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce("orders", b"aborted", partition=0)
    producer.flush(60)
    producer.abort_transaction(60)
    assert sides.run("again").records == 0
    assert ends(sides) == {PLACE: 10}


def test_where_its_progress_cannot_be_read_it_may_have_copied_more(sides: Sides) -> None:
    sides.set(policy=IdentityReplicationPolicy())
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"v")] * 10)
    sides.refresh()
    assert sides.run().records == 10
    progress(sides, b"[")
    found = ends(sides)[PLACE]
    assert isinstance(found, str)
    assert "that flow's progress there cannot be read, because '[' is not JSON" in found
