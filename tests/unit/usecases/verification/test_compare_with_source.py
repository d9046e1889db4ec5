"""Copies of a fake cluster that are compared with their source, record by record."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import DifferenceKind, NotProved
from srm_common.domain.verification.named_keys import key_digest
from srm_common.domain.verification.verification import Against, PartitionVerified, Verdict, VerificationScope
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.records import Record, batch_of, records_of, stored
from srm_common.usecases.verification import compare_with_source
from srm_common.usecases.verification.compare_with_source import SourceOfCopies
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.kafka.flows import write
from tests.kafka.records import delete_topic
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.verification.planted_faults import COPY, FAULTS, batches, rewritten
from tests.unit.usecases.verification.test_verify_copies import copied, copied_by_mirror_maker, move_back, store_offset

__all__ = ["copied"]  # a fixture

#: What no record tells: the map alone.
OF_THE_MAP = {"offset map record removed"}
#: By their records, some faults are called otherwise.
OTHERWISE = {
    "doubled batch": DifferenceKind.FOREIGN,
    "compaction in the middle": DifferenceKind.LOST,
}


def compared(sides: Sides, scope: VerificationScope | None = None) -> PartitionVerified:
    verification = verify_copies(sides.clusters(), scope, against=Against.SOURCE)
    assert verification.against is Against.SOURCE
    (one,) = [partition for partition in verification.partitions if partition.partition == 0]
    return one


def test_what_a_flow_has_copied_is_proved_without_opening_a_batch(
    copied: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_batch(batch: object) -> list[object]:
        raise AssertionError("opened")

    monkeypatch.setattr("srm_common.wire.batches.compared_batches.loose_records", no_batch)
    one = compared(copied)
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == (Verdict.PROVED, 60, {})
    assert (one.findings.proved_from, one.findings.proved_to) == (0, 60)


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - OF_THE_MAP))
def test_each_planted_fault_is_found(copied: Sides, fault: str) -> None:
    plant, kind = FAULTS[fault]
    plant(copied, copied.target.log(COPY, 0))
    one = compared(copied)
    assert OTHERWISE.get(fault, kind) in one.findings.counts, one.findings
    assert one.verdict is Verdict.DIFFERENT


def test_what_mirror_maker_has_copied_is_proved_by_the_source(copied: Sides) -> None:
    """In other batches; the map tells nothing of it."""
    copied_by_mirror_maker(copied, 7)
    write(copied.source, "orders", [b"ours"] * 5)
    copied.run("later")
    one = compared(copied)
    assert one.findings.differences == []
    assert one.findings.not_proved == {NotProved.NOT_COPIED: 7}  # keys and times are others there
    assert one.findings.proved == 65


def test_what_was_copied_before_the_map_begins_is_proved_by_the_source(steady_sides: Sides) -> None:
    """As after a take-over: in the copy lie the source's records, and the map does not know them."""
    steady_sides.source.create_topic("orders", 1)
    steady_sides.refresh()
    write(steady_sides.source, "orders", [b"before %d" % number for number in range(9)])
    log = steady_sides.source.log("orders", 0)
    for batch in log.batches:
        codec = batch.header.attributes & 7
        plain = batch.header._replace(producer_id=-1, producer_epoch=-1, base_sequence=-1, attributes=codec)
        steady_sides.target.log(COPY, 0).append(batch_of(records_of(batch), like=plain), 0)
    store_offset(steady_sides)
    write(steady_sides.source, "orders", [b"ours"] * 5)
    steady_sides.run("r")
    one = compared(steady_sides)
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == (Verdict.PROVED, 14, {})


def test_what_was_copied_again_is_proved_by_the_source(copied: Sides) -> None:
    move_back(copied, 20)
    one = compared(copied)
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == (Verdict.PROVED, 100, {})
    assert one.findings.proved_to == 60
    log = copied.target.log(COPY, 0)
    log.batches[batches(log)[2]] = rewritten(log.batches[batches(log)[2]], lambda one: one._replace(value=b"other"))
    one = compared(copied)
    assert (one.verdict, one.findings.counts) == (Verdict.PARTLY, {})
    assert (one.findings.proved, one.findings.not_proved) == (60, {NotProved.COPIED_AGAIN: 41})
    copied.source.log("orders", 0).delete_before(30)
    one = compared(copied)
    assert (one.verdict, one.findings.counts) == (Verdict.PARTLY, {})


def shared(sides: Sides) -> None:
    """Another flow writes to the same copy, the registry says."""
    clusters = sides.clusters()
    registry = clusters.target.registry
    (own,) = registry.read().of_flow(clusters.flow.name).values()
    registry.write([replace(own, flow="c->b")])


def test_what_was_copied_again_from_the_start_is_no_difference(copied: Sides) -> None:
    """Before the map begins: what is to be copied from its very start has no offset that could say what there was."""
    move_back(copied, 0)
    one = compared(copied)
    assert (one.verdict, one.findings.counts) == (Verdict.PARTLY, {})
    assert one.findings.proved == 60
    assert one.findings.not_proved.keys() == {NotProved.BEFORE_MAP}


def test_what_other_flows_write_to_a_shared_copy_is_no_difference(copied: Sides) -> None:
    theirs = [b"of another flow %d" % number for number in range(7)]
    write(copied.target, COPY, theirs)
    write(copied.source, "orders", [b"last %d " % number * 100 for number in range(10)])
    copied.run("last")
    write(copied.target, COPY, theirs)
    assert set(compared(copied).findings.counts) == {DifferenceKind.FOREIGN}
    shared(copied)
    one = compared(copied)
    assert (one.verdict, one.findings.proved, one.findings.counts) == (Verdict.PROVED, 70, {})
    log = copied.target.log(COPY, 0)
    del log.batches[batches(log)[2]]
    one = compared(copied)
    assert set(one.findings.counts) == {DifferenceKind.LOST}
    assert one.findings.proved == 50


def test_records_that_were_written_again_are_compared_one_by_one(steady_sides: Sides) -> None:
    """Small batches are merged, so that no two of both sides hold the same bytes."""
    steady_sides.source.create_topic("orders", 1)
    steady_sides.refresh()
    for number in range(20):
        write(steady_sides.source, "orders", [b"%d" % number] * 3)
    steady_sides.run("r")
    assert len(batches(steady_sides.target.log(COPY, 0))) < 20
    one = compared(steady_sides)
    assert (one.verdict, one.findings.proved, one.findings.counts) == (Verdict.PROVED, 60, {})


def test_retention_of_either_side_is_no_loss(copied: Sides) -> None:
    copied.source.log("orders", 0).delete_before(20)
    one = compared(copied)
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == (
        Verdict.PARTLY,
        40,
        {NotProved.SOURCE_RETENTION: 20},
    )
    copied.target.log(COPY, 0).delete_before(25)
    one = compared(copied)
    assert (one.verdict, one.findings.counts) == (Verdict.PROVED, {})
    assert set(one.findings.not_proved) == {NotProved.RETENTION}


def test_a_source_that_is_gone_or_another_is_said_so(copied: Sides) -> None:
    delete_topic(copied.source, "orders")
    gone = compared(copied)
    assert gone.verdict is Verdict.FAILED
    assert gone.fault is not None
    assert "topic orders does not exist on a any more" in gone.fault
    copied.source.create_topic("orders", 2)
    write(copied.source, "orders", [b"x"] * 60)
    again = compared(copied)
    assert again.fault is not None
    assert "was created again" in again.fault


def test_a_damaged_batch_of_the_source_is_no_difference(copied: Sides) -> None:
    log = copied.source.log("orders", 0)
    broken = bytearray(log.batches[0].data)
    broken[-1] ^= 1
    log.batches[0] = stored(bytes(broken), 0, 0)
    one = compared(copied)
    assert one.verdict is Verdict.FAILED
    assert one.fault is not None
    assert "orders-0 on a cannot be read" in one.fault


def test_a_topic_with_transforms_is_named_and_not_compared(copied: Sides) -> None:
    copied.set(provenance_headers=("flow",))
    one = compared(copied)
    assert (one.verdict, set(one.findings.not_proved)) == (Verdict.PARTLY, {NotProved.TRANSFORMED})


def test_a_sample_is_compared(copied: Sides) -> None:
    one = compared(copied, VerificationScope(sample=0.5))
    assert one.verdict in (Verdict.PARTLY, Verdict.NOTHING)
    assert one.findings.proved in (0, 20, 40)


def test_memory_does_not_depend_on_the_number_of_partitions(steady_sides: Sides) -> None:
    steady_sides.source.create_topic("orders", 6)
    steady_sides.refresh()
    for partition in range(6):
        write(steady_sides.source, "orders", [b"x"] * 10, partition)
    steady_sides.run("r")
    held: list[int] = []

    def look(result: PartitionVerified) -> None:
        assert result.verdict is Verdict.PROVED
        # Asking a weak reference for its class fails once its object is gone.
        held.append(sum(type(get_object) is Lease and get_object.has_memory for get_object in gc.get_objects()))

    gc.collect()
    gc.disable()
    try:
        verify_copies(steady_sides.clusters(), against=Against.SOURCE, report=look)
    finally:
        gc.enable()
    assert len(held) == 6
    assert len(set(held)) == 1


@pytest.fixture
def keyed(steady_sides: Sides) -> Sides:
    """A compacted topic of four keys, each written five times; both cleaners were there, at different times."""
    steady_sides.source.create_topic("orders", 1, config={"cleanup.policy": "compact"})
    steady_sides.refresh()
    for number in range(5):
        keyed_write(steady_sides, {b"%d" % key: b"%d of %d" % (number, key) for key in range(4)})
        steady_sides.run(f"r{number}")
        if number == 2:
            steady_sides.source.log("orders", 0).compact()
    steady_sides.target.log(COPY, 0).compact()
    return steady_sides


def keyed_write(sides: Sides, values: dict[bytes, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": sides.source.bootstrap_servers})
    for key, value in values.items():
        producer.produce("orders", value, key, partition=0)
    producer.flush(60)


@pytest.mark.parametrize("keys", [200_000, 2])
def test_compacted_logs_are_compared_by_the_newest_value_of_each_key(
    keyed: Sides, monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    monkeypatch.setattr(compare_with_source, "_KEYS", keys)
    one = compared(keyed)
    assert (one.verdict, one.findings.proved, one.findings.counts) == (Verdict.PROVED, 4, {})
    keyed_write(keyed, {b"3": None, b"9": b"not copied yet"})
    keyed.source.log("orders", 0).compact()
    assert compared(keyed).findings.counts == {}
    keyed.run("tombstone")
    assert compared(keyed).findings.counts == {}


def last_value(log: PartitionLog, value: bytes | None) -> None:
    at = batches(log)[-1]
    one = log.batches[at]
    records = [*records_of(one)[:-1], records_of(one)[-1]._replace(value=value)]
    log.batches[at] = stored(batch_of(records, like=one.header), one.header.base_offset, one.header.leader_epoch)


def test_another_newest_value_or_none_is_a_difference(keyed: Sides) -> None:
    log = keyed.target.log(COPY, 0)
    last_value(log, b"other")
    assert compared(keyed).findings.counts == {DifferenceKind.CHANGED: 1}
    del log.batches[batches(log)[-1]]
    findings = compared(keyed).findings
    assert set(findings.counts) == {DifferenceKind.LOST}
    assert str(findings.differences[0]).startswith("upstream offset ")
    keys = [b"%d" % key for key in range(4)]
    assert [difference.key for difference in findings.differences] == [key_digest(key).hex() for key in keys]
    assert {difference.shown_key for difference in findings.differences} == {None}
    shown = verify_copies(keyed.clusters(), against=Against.SOURCE, show_keys=True)
    assert [difference.shown_key for difference in shown.different[0].findings.differences] == keys


@pytest.fixture
def thinned(steady_sides: Sides) -> Sides:
    """A compacted topic of four keys, each written five times; only the source's cleaner was there, after the third."""
    steady_sides.source.create_topic("orders", 1, config={"cleanup.policy": "compact"})
    steady_sides.refresh()
    for number in range(5):
        keyed_write(steady_sides, {b"%d" % key: b"%d of %d" % (number, key) for key in range(4)})
        steady_sides.run(f"r{number}")
        if number == 2:
            steady_sides.source.log("orders", 0).compact()
    return steady_sides


def test_older_values_are_compared_where_the_source_still_has_them(thinned: Sides) -> None:
    one = compared(thinned)
    assert (one.verdict, one.findings.proved, one.findings.counts) == (Verdict.PROVED, 4, {})
    log = thinned.target.log(COPY, 0)
    places = batches(log)
    # The source has compacted what the first two chunks hold, and has the fourth.
    plant(log, places[0], lambda records: [records[0]._replace(value=b"other"), *records[1:]])
    assert compared(thinned).findings.counts == {}
    plant(log, places[3], lambda records: [records[0], records[1]._replace(value=b"other"), *records[2:]])
    verified = compared(thinned)
    assert verified.findings.counts == {DifferenceKind.CHANGED: 1}
    assert verified.first is not None
    assert (verified.first.downstream_first, verified.first.upstream_first) == (16, 13)
    assert (verified.first.key, verified.first.shown_key) == (key_digest(b"1").hex(), None)


def plant(log: PartitionLog, at: int, change: Callable[[list[Record]], list[Record]]) -> None:
    one = log.batches[at]
    records = change(list(records_of(one)))
    log.batches[at] = stored(batch_of(records, like=one.header), one.header.base_offset, one.header.leader_epoch)


def swapped(records: list[Record]) -> list[Record]:
    first, second, *rest = records
    return [second._replace(offset=first.offset), first._replace(offset=second.offset), *rest]


def test_older_values_in_another_order_are_different(thinned: Sides) -> None:
    log = thinned.target.log(COPY, 0)
    plant(log, batches(log)[3], swapped)
    verified = compared(thinned)
    assert verified.findings.counts == {DifferenceKind.CHANGED: 2}


def test_an_older_value_that_others_wrote_in_between_is_different(thinned: Sides) -> None:
    write(thinned.target, COPY, [b"of others"])
    keyed_write(thinned, {b"0": b"newest"})
    thinned.run("later")
    verified = compared(thinned)
    assert verified.findings.counts == {DifferenceKind.FOREIGN: 1}
    assert verified.first is not None
    assert (verified.first.downstream_first, verified.first.downstream_last) == (25, 25)


def test_cleaners_and_repeated_copies_raise_no_alarm(thinned: Sides) -> None:
    thinned.source.log("orders", 0).compact()
    assert compared(thinned).findings.counts == {}
    move_back(thinned, 13)
    assert compared(thinned).findings.counts == {}
    thinned.target.log(COPY, 0).compact()
    assert compared(thinned).findings.counts == {}


def test_of_a_compacted_copy_that_is_shared_no_newest_value_is_known(keyed: Sides) -> None:
    last_value(keyed.target.log(COPY, 0), b"of another flow")
    shared(keyed)
    one = compared(keyed)
    assert (one.verdict, one.findings.counts) == (Verdict.PARTLY, {})
    assert set(one.findings.not_proved) == {NotProved.MIXED}


@pytest.mark.parametrize("cleaned", ["source", "target"])
def test_keys_that_are_written_while_both_logs_are_read_are_no_difference(
    keyed: Sides, cleaned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner of one side takes the older value from under the reader."""
    listed = SourceOfCopies._log

    def then_go_on(self: SourceOfCopies, link: ClusterLink, place: TopicPartition, *, committed: bool) -> LogRange:
        found = listed(self, link, place, committed=committed)
        keyed.source.write("orders", [(b"1", b"new"), (b"never seen", b"new")])
        if cleaned == "source":
            keyed.source.compact("orders")
        else:
            keyed.source.write("orders", [(b"last", b"new")])
            keyed.run("meanwhile")
            keyed.target.compact(COPY)
        return found

    monkeypatch.setattr(SourceOfCopies, "_log", then_go_on)
    one = compared(keyed)
    assert (one.verdict, one.findings.differences) == (Verdict.PROVED, [])
