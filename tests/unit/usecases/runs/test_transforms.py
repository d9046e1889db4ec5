"""Runs of a flow that changes records: what arrives, where offsets lead, and what is committed of what was dropped."""

from __future__ import annotations

from srm_common.domain.runs.run_record import RunState
from srm_common.domain.transforms.chain import parse_chain
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
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
    arrived = sides.target.records("a.orders")
    assert [one.value for one in arrived] == [b"0", b"2", b"3", b"5", b"6"]
    assert {one.headers for one in arrived} == {(("origin", b"a"),)}
    assert sides.values("a.orders", 1) == []
    assert positions(sides) == {("orders", 0): 7, ("orders", 1): 4}
    assert sides.run("again").records == 0


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


def test_copies_say_where_they_came_from(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.set(provenance_headers=("partition", "flow"), copy_source_offset_in_header=True)
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(3)], 1)
    sides.refresh()
    assert sides.run().records == 3
    assert [one.headers for one in sides.target.records("a.orders", 1)] == [
        (("srm.flow", b"a->b"), ("srm.source.partition", b"1"), ("srm.source.offset", b"%d" % number))
        for number in range(3)
    ]
