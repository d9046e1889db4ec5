"""Copies of a fake cluster that break in each way that a log can, and are compared with the map."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from srm_common.domain.flow import names
from srm_common.domain.offsets.fingerprints import NO_BATCHES
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import Difference, DifferenceKind, NotProved
from srm_common.domain.verification.verification import PartitionVerified, Verdict, Verification, VerificationScope
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.transaction_markers import MarkerSearch, find_markers
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.records import marker, stored
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.verification.verify_copies import verify_copies
from srm_common.wire.state.mm2 import partition_for, source_offset_key, source_offset_value
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.flows import write
from tests.kafka.records import delete_topic
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.verification.planted_faults import COPY, FAULTS, batches


@pytest.fixture
def copied(steady_sides: Sides) -> Sides:
    three_runs(steady_sides)
    return steady_sides


def three_runs(sides: Sides) -> None:
    """Of two batches each, chunks of their own; the batches are too large to be merged."""
    sides.source.create_topic("orders", 2)
    sides.refresh()
    for number in range(3):
        for batch in range(2):
            write(sides.source, "orders", [b"%d %d %d " % (number, batch, n) * 100 for n in range(10)])
        sides.run(f"run-{number}")


def verified(sides: Sides, scope: VerificationScope | None = None) -> Verification:
    return verify_copies(sides.clusters(), scope)


def the_one(found: Verification) -> PartitionVerified:
    """The partition that has records."""
    (one,) = [partition for partition in found.partitions if partition.partition == 0]
    return one


def test_what_a_flow_has_copied_is_proved_to_its_end(copied: Sides) -> None:
    verification = verified(copied)
    assert verification.clean
    assert verification.different == []
    assert verification.counts == {Verdict.PROVED: 1, Verdict.NOTHING: 1}
    one = the_one(verification)
    assert (one.findings.proved, one.findings.not_proved, one.findings.proved_to) == (60, {}, 60)
    assert verification.evidence.topic_ids.keys() == {COPY}
    assert verification.evidence.source_cluster_id
    assert verification.evidence.source_topic_ids == {
        "orders": copied.clusters().source.admin.describe_topics(["orders"])["orders"].topic_id
    }
    assert one.to_json()["fingerprint"] == one.findings.fingerprint.to_bytes().hex()
    assert verification.to_json()["counts"] == {"proved": 1, "nothing": 1}
    assert PartitionVerified.from_json(one.to_json()) == one


def test_the_source_may_be_gone(copied: Sides) -> None:
    copied.source.close()
    copied.close()
    assert the_one(verified(copied)).verdict is Verdict.PROVED


def test_joined_segments_are_proved_as_before(copied: Sides) -> None:
    for number in range(12):
        write(copied.source, "orders", [b"x"] * 3)
        copied.run(f"more-{number}")
    before = the_one(verified(copied)).findings
    sync_checkpoints(copied.clusters(), at_once=True)
    sync_checkpoints(copied.clusters(), at_once=True)
    after = the_one(verified(copied)).findings
    assert after.proved == before.proved == 96
    assert after.fingerprint == before.fingerprint != NO_BATCHES
    assert not after.different
    assert after.segments <= before.segments


def without_map(sides: Sides, number: int) -> None:
    """One of three records of the map is gone."""
    topic = names.segments_topic("a")
    for partition in range(25):
        map_log = sides.target.log(topic, partition)
        data = batches(map_log)
        if data:
            del map_log.batches[data[number]]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_found_and_named(copied: Sides, fault: str) -> None:
    plant, kind = FAULTS[fault]
    plant(copied, copied.target.log(COPY, 0))
    verification = verified(copied)
    assert not verification.clean
    one = the_one(verification)
    assert set(one.findings.counts) == {kind}, one.findings
    assert one.verdict is Verdict.DIFFERENT
    assert [(different.copy, different.partition) for different in verification.different] == [(COPY, 0)]
    assert one.findings.proved_to < 60 or kind in (DifferenceKind.FOREIGN, DifferenceKind.DOUBLED)


@pytest.mark.parametrize("number", [1, 2])
def test_a_lost_record_of_the_map_is_told(copied: Sides, number: int) -> None:
    """It was a run of its own, with an epoch of its own."""
    without_map(copied, number)
    one = the_one(verified(copied))
    (difference,) = one.findings.differences
    assert (difference.kind, difference.upstream_first, difference.upstream_last) == (
        DifferenceKind.UNMAPPED,
        20 * number,
        20 * number + 19,
    )
    assert (difference.downstream_first, difference.downstream_last) == (21 * number - 1, 21 * number + 19)
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == (Verdict.DIFFERENT, 40, {})


def test_a_map_that_is_lost_as_a_whole_is_told(copied: Sides) -> None:
    for partition in range(25):
        log = copied.target.log(names.segments_topic("a"), partition)
        log.delete_before(log.end)
    one = the_one(verified(copied))
    assert one.findings.differences == [Difference(DifferenceKind.UNMAPPED, 0, 61)]
    delete_topic(copied.target, names.segments_topic("a"))
    assert the_one(verified(copied)).findings.differences == [Difference(DifferenceKind.UNMAPPED, 0, 61)]
    copied.target.log(COPY, 0).delete_before(63)
    assert the_one(verified(copied)).verdict is Verdict.NOTHING


def former_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that did not write down where the copy ended."""
    monkeypatch.setattr("srm_common.replication.slots.map_records.in_a_row", lambda segments, copied_to: segments)
    monkeypatch.setattr("srm_common.replication.slots.chunk.copied_to_headers", lambda copied_to, position: ())


def test_a_lost_record_of_former_versions_looks_like_what_mirror_maker_copies(
    steady_sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    former_version(monkeypatch)
    three_runs(steady_sides)
    without_map(steady_sides, 1)
    verification = verified(steady_sides)
    one = the_one(verification)
    expected = (Verdict.PARTLY, 40, {NotProved.NOT_COPIED: 20})
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == expected
    assert verification.clean


def move_back(sides: Sides, offset: int) -> None:
    """Everything from ``offset`` on is copied again."""
    edits = edit_source_offsets(sides.clusters(), Request("set", {TopicPartition("orders", 0): offset}))
    assert [edit.problem for edit in edits] == [None]
    assert not sides.run(f"again-from-{offset}").error


def test_what_was_copied_again_raises_no_alarm(copied: Sides) -> None:
    """As a repair does it. The map drops what it does not need for translations."""
    move_back(copied, 20)
    for _ in range(2):
        findings = the_one(verified(copied)).findings
        assert (findings.counts, findings.proved, findings.not_proved) == ({}, 60, {NotProved.COPIED_AGAIN: 40})
        assert check_copies(copied.clusters()).found == ()
        sync_checkpoints(copied.clusters(), at_once=True)
    move_back(copied, 30)  # in the middle of a chunk
    move_back(copied, 20)
    findings = the_one(verified(copied)).findings
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 60, {NotProved.COPIED_AGAIN: 110})
    write(copied.target, COPY, [b"not ours"])
    assert the_one(verified(copied)).findings.counts == {DifferenceKind.FOREIGN: 1}
    move_back(copied, 20)
    findings = the_one(verified(copied)).findings
    assert (findings.counts, findings.proved) == ({DifferenceKind.FOREIGN: 1}, 60)
    assert len(check_copies(copied.clusters()).found) == 1


def test_what_a_former_version_copied_may_be_copied_again(steady_sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patches:
        former_version(patches)
        three_runs(steady_sides)
    move_back(steady_sides, 20)
    findings = the_one(verified(steady_sides)).findings
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 60, {NotProved.COPIED_AGAIN: 40})


def copied_by_mirror_maker(sides: Sides, records: int) -> None:
    """Records of the source in the copy, in other batches, and the offset that MirrorMaker 2 stores for them."""
    values = [b"by another %d" % number for number in range(records)]
    write(sides.source, "orders", values)
    write(sides.target, COPY, values)
    store_offset(sides)


def store_offset(sides: Sides) -> None:
    """All of the source is copied, MirrorMaker 2 says."""
    state = sides.clusters().state_topics()
    key = source_offset_key("a", "orders", 0)
    place = partition_for(key, state.offsets_partitions)
    stored = sides.source.log("orders", 0).end - 1
    sides.clusters().target.writer().write(
        "store offsets", [NewRecord(state.offsets_topic, place, key, source_offset_value(stored))]
    )


def test_what_mirror_maker_copied_in_between_and_behind_is_not_proved(copied: Sides) -> None:
    copied_by_mirror_maker(copied, 7)
    partition_verified = the_one(verified(copied))
    assert (partition_verified.verdict, partition_verified.findings.not_proved) == (
        Verdict.PARTLY,
        {NotProved.NOT_COPIED: 7},
    )
    write(copied.source, "orders", [b"ours"] * 5)
    copied.run("later")
    assert copied.values(COPY)[60:] == [b"by another %d" % number for number in range(7)] + [b"ours"] * 5
    later = the_one(verified(copied)).findings
    assert (later.counts, later.proved, later.not_proved) == ({}, 65, {NotProved.NOT_COPIED: 7})
    write(copied.target, COPY, [b"not ours"])
    assert the_one(verified(copied)).findings.counts == {DifferenceKind.FOREIGN: 1}


def test_a_sample_is_the_same_each_time_and_proves_a_part(copied: Sides) -> None:
    scope = VerificationScope(sample=0.5)
    one, again = the_one(verified(copied, scope)), the_one(verified(copied, scope))
    assert one.findings == again.findings
    assert one.verdict in (Verdict.PARTLY, Verdict.NOTHING)
    assert one.findings.proved in (0, 20, 40, 60)
    assert not one.findings.different


def test_since_a_time_only_what_came_later_is_read(copied: Sides) -> None:
    """The times of markers count, as brokers have it: they are those of the commits."""
    commits = [batch.header.max_timestamp for batch in copied.target.log(COPY, 0) if batch.control]
    later = the_one(verified(copied, VerificationScope(since_ms=commits[1] + 1)))
    assert later.findings.proved == 20
    assert later.verdict is Verdict.PARTLY
    nothing = the_one(verified(copied, VerificationScope(since_ms=commits[2] + 1)))
    assert (nothing.findings.segments, nothing.findings.bytes) == (0, 0)


def test_what_was_compared_before_is_passed_over(copied: Sides) -> None:
    told: list[PartitionVerified] = []
    verification = verify_copies(
        copied.clusters(), skip=lambda place: place == TopicPartition("orders", 0), report=told.append
    )
    assert (
        [partition.partition for partition in verification.partitions]
        == [partition_verified.partition for partition_verified in told]
        == [1]
    )
    assert verify_copies(copied.clusters(), chosen=lambda topic: topic != "orders").partitions == ()


def test_retention_on_the_target_is_no_loss(copied: Sides) -> None:
    copied.target.log(COPY, 0).delete_before(25)
    one = the_one(verified(copied))
    assert (one.findings.proved, one.findings.not_proved) == (20, {NotProved.RETENTION: 20})
    assert one.verdict is Verdict.PROVED


def test_a_compacted_topic_is_proved_where_the_cleaner_was_not(steady_sides: Sides, target_kafka: FakeCluster) -> None:
    steady_sides.source.create_topic("orders", 1, config={"cleanup.policy": "compact"})
    steady_sides.refresh()
    for number in range(2):
        write(steady_sides.source, "orders", [b"%d" % number] * 3)
        steady_sides.run(f"r{number}")
    target_kafka.log(COPY, 0).compact()
    one = the_one(verified(steady_sides))
    assert not one.findings.different
    assert one.findings.not_proved == {NotProved.COMPACTED: 3}
    assert one.verdict is Verdict.PARTLY


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[MarkerSearch]:
    """Markers that were looked for in the log; an answer holds four batches."""
    marker_searches: list[MarkerSearch] = []

    async def counting(link: ClusterLink, wanted: Sequence[MarkerSearch], patience: float) -> None:
        marker_searches.extend(wanted)
        await find_markers(link, wanted, patience)

    monkeypatch.setattr("srm_common.kafka.log.mapped_log.find_markers", counting)
    monkeypatch.setattr("srm_common.usecases.verification.verify_copies._FETCH_BYTES", 64 << 10)
    return marker_searches


def large(sides: Sides) -> PartitionLog:
    """One chunk of ten batches and more."""
    sides.source.create_topic("orders", 1)
    sides.refresh()
    write(sides.source, "orders", [b"x" * 1000] * 400, batch_size=20_000)
    sides.run("large")
    log = sides.target.log(COPY, 0)
    assert sum(not batch.control for batch in log) >= 10
    assert sum(batch.control for batch in log) == 1
    return log


def test_no_marker_is_looked_for_where_the_map_tells_of_the_chunk(
    steady_sides: Sides, searches: list[MarkerSearch]
) -> None:
    """It comes behind all of a chunk's batches: to look for it is to read the log twice."""
    large(steady_sides)
    partition_verified = the_one(verified(steady_sides))
    assert (partition_verified.verdict, partition_verified.findings.proved) == (Verdict.PROVED, 400)
    assert searches == []


@pytest.mark.parametrize("committed", [False, True])
def test_the_marker_of_what_the_map_does_not_tell_of_is_looked_for_once(
    steady_sides: Sides, searches: list[MarkerSearch], committed: bool
) -> None:
    log = large(steady_sides)
    producer = Producer(
        {"bootstrap.servers": steady_sides.target.bootstrap_servers, "transactional.id": "other", "batch.size": 20_000}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(200):
        producer.produce(COPY, b"y" * 1000, partition=0)
    producer.flush(60)
    if committed:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)
    assert sum(batch.control for batch in log) == 2
    partition_verified = the_one(verified(steady_sides))
    assert partition_verified.findings.proved == 400
    assert partition_verified.findings.counts == ({DifferenceKind.FOREIGN: 1} if committed else {})
    assert len(searches) == 1


def test_a_chunk_that_is_in_the_map_and_aborted_in_the_log_is_lost(copied: Sides) -> None:
    """A coordinator that lost its log may write the other marker; consumers pass over the records then."""
    log = copied.target.log(COPY, 0)
    at = next(number for number, one in enumerate(log.batches) if one.control)
    one = log.batches[at].header
    other = marker(False, one.producer_id, one.producer_epoch, one.max_timestamp, 0)
    log.batches[at] = stored(other, one.base_offset, one.leader_epoch)
    findings = the_one(verified(copied)).findings
    assert (findings.counts, findings.proved) == ({DifferenceKind.LOST: 1}, 40)
    assert "aborted" in str(findings.differences[0])
