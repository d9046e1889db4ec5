"""Runs of a flow that changes records: what arrives, where offsets lead, and what is committed of what was dropped."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.statements import Statement
from srm_common.usecases.monitoring.report_run import copied_records, data_topics
from srm_common.usecases.offsets.backlog import known_backlog
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.transforms.transform_preview import preview_transforms
from srm_common.usecases.verification.compare_with_source import is_transformed
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.runs.test_replicate import positions

WITHOUT_TOMBSTONES = parse_chain(
    {
        "transforms": "drop, origin",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "gone",
        "transforms.origin.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.origin.header": "origin",
        "transforms.origin.value.literal": "a",
        "predicates": "gone",
        "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
)


def test_dropped_records_are_passed_and_the_others_have_the_header(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.set(transforms=WITHOUT_TOMBSTONES)
    sides.source.write("orders", [(b"k", None if number % 3 == 1 else b"%d" % number) for number in range(7)])
    sides.source.write("orders", [(b"k", None)] * 4, 1)
    sides.refresh()
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 5)
    assert [(partition.partition, partition.dropped_records) for partition in record.partitions] == [(0, 2), (1, 4)]
    arrived = sides.target.records("a.orders")
    assert [one.value for one in arrived] == [b"0", b"2", b"3", b"5", b"6"]
    assert {one.headers for one in arrived} == {(("origin", b"a"),)}
    assert sides.values("a.orders", 1) == []
    assert positions(sides) == {("orders", 0): 7, ("orders", 1): 4}
    assert sides.run("again").records == 0


MASKED = parse_chain(
    {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "card",
        "value.format": "json",
    }
)


def test_heartbeats_are_copied_as_they_are(sides: Sides) -> None:
    """They are no JSON, say, and a flow without them looks dead."""
    for topic in ("orders", "heartbeats", "z.heartbeats"):
        sides.source.create_topic(topic)
        sides.source.write(topic, [(b"\0\1", b'{"card": "4"}' if topic == "orders" else b"\0\0\1\x9a")])
    sides.set(transforms=MASKED, provenance_headers=("cluster",), heartbeats_replication=True, aliases=("z",))
    sides.refresh()
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 3)
    for copy, value, headers in (
        ("a.orders", b'{"card":""}', (("srm.source.cluster", b"a"),)),
        ("a.heartbeats", b"\0\0\1\x9a", ()),
        ("a.z.heartbeats", b"\0\0\1\x9a", ()),
    ):
        (copied,) = sides.target.records(copy)
        assert (copied.key, copied.value, copied.headers) == (b"\0\1", value, headers)


def test_data_in_a_topic_that_is_named_like_heartbeats_is_data(sides: Sides) -> None:
    """The policy takes it for heartbeats of a cluster ``device``; the file has none."""
    sides.source.create_topic("device.heartbeats")
    sides.source.write("device.heartbeats", [(b"k", b'{"card": "4"}')])
    sides.set(topics=("device.*",), transforms=MASKED, provenance_headers=("cluster",), heartbeats_replication=True)
    plan = sides.refresh().plan
    assert plan is not None
    assert any("copied as data, transforms included: device.heartbeats" in notice for notice in plan.notices)
    assert known_backlog(sides.clusters()).partitions == {TopicPartition("device.heartbeats", 0): 1}
    record = sides.run()
    assert (record.state, data_topics(sides.flow, record), copied_records(sides.flow, record)) == (
        RunState.DONE,
        1,
        (1, 1),
    )
    (copied,) = sides.target.records("a.device.heartbeats")
    assert (copied.value, copied.headers) == (b'{"card":""}', (("srm.source.cluster", b"a"),))
    assert is_transformed(sides.flow, "device.heartbeats", "a.device.heartbeats")
    (shown,) = preview_transforms(sides.clusters(), [], 1).records
    assert shown.topic == "device.heartbeats"


def test_each_position_of_a_group_leads_to_the_next_record_that_was_kept(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.set(transforms=WITHOUT_TOMBSTONES, sync_group_offsets=True, sync_group_offsets_interval_seconds=0.0)
    kept: list[int] = []
    sides.refresh()
    offset = 0
    for run, pattern in enumerate(("+-+--+", "---", "-+-", "----", "++-")):
        for sign in pattern:
            sides.source.write("orders", [(b"k", b"v" if sign == "+" else None)])
            if sign == "+":
                kept.append(offset)
            offset += 1
        sides.run(f"r{run}")
    sides.source.write("orders", [(b"k", None)] * 3, 1)
    sides.run("last")
    copies = [record.offset for record in sides.target.records("a.orders")]
    assert len(copies) == len(kept)
    end = sides.target.log("a.orders", 0).end
    for position in range(offset + 1):
        sides.source.commit(f"g{position}", {("orders", 0): position, ("orders", 1): 2})
    assert sync_checkpoints(sides.flow).faults == ()
    for position in range(offset + 1):
        later = [copy for upstream, copy in zip(kept, copies, strict=True) if upstream >= position]
        committed = sides.target.committed(f"g{position}")
        earlier = [copy for upstream, copy in zip(kept, copies, strict=True) if upstream < position]
        first, last = (earlier[-1] + 1 if earlier else 0), later[0] if later else end
        # What lies between them are markers: nothing is skipped, nothing read twice.
        assert first <= committed[("a.orders", 0)] <= last, position


def test_a_change_of_the_transforms_is_told_and_is_for_what_comes(sides: Sides) -> None:
    def told(notes: Iterable[str]) -> list[str]:
        return [note for note in notes if "transforms have changed" in note]

    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", None), (b"k", b"1")])
    sides.refresh()
    assert told(sides.run("first").notes) == []
    sides.set(transforms=WITHOUT_TOMBSTONES)
    (notice,) = told(plan_topics(sides.clusters()).notices)
    digest = sides.flow.transforms_digest
    assert notice == (
        f"the transforms have changed since run 'first' (none -> {digest}): records copied from the next run on go "
        f"through the new ones, records already copied stay"
    )
    sides.source.write("orders", [(b"k", None), (b"k", b"2")])
    assert told(sides.run("second").notes) == [notice.replace("the next run", "now")]
    assert sides.values("a.orders") == [None, b"1", b"2"]
    assert told(plan_topics(sides.clusters()).notices) == told(sides.run("third").notes) == []
    sides.set(provenance_headers=("flow",))
    assert told(sides.run("fourth").notes)
    sides.set(transforms=(), provenance_headers=("none",))
    (note,) = told(sides.run("fifth").notes)
    assert note.startswith("the transforms have changed since run 'fourth' (")
    assert " -> none)" in note


def test_the_digest_is_the_same_in_later_versions(sides: Sides) -> None:
    """A new field of steps that has its default changes nothing; this text must not change either."""
    assert sides.set(transforms=WITHOUT_TOMBSTONES).transforms_digest == "f833af3e0870"
    masks = [
        parse_chain(
            {"transforms": "m", "transforms.m.type": kind, "transforms.m.fields": "a", "value.format": "json"} | more
        )
        for kind in ("MaskField$Value", "ReplaceField$Value")
        for more in ({}, {"transforms.m.replacement": "x", "transforms.m.exclude": "b"})
    ]
    assert len({sides.set(transforms=chain).transforms_digest for chain in masks}) == len(set(masks)) > 1
    sides.set(transforms=WITHOUT_TOMBSTONES)
    others = {
        sides.set(transforms_python="orders:clean").transforms_digest,
        sides.set(statements=(Statement("transforms.sql", "SELECT key FROM records"),)).transforms_digest,
        sides.set(statements=(Statement("transforms.sql", "SELECT value FROM records"),)).transforms_digest,
    }
    assert len(others) == 3
    assert "f833af3e0870" not in others


def test_copies_say_where_they_came_from(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.set(provenance_headers=("partition", "flow"), copy_source_offset_in_header=True)
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(3)], 1)
    sides.refresh()
    assert sides.run().records == 3
    assert [record.headers for record in sides.target.records("a.orders", 1)] == [
        (("srm.flow", b"a->b"), ("srm.source.partition", b"1"), ("srm.source.offset", b"%d" % number))
        for number in range(3)
    ]
