"""A range's way through chunks: what is committed, fetched, started over and given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.fingerprints import NO_BATCHES, fingerprint_of, offset_factor
from srm_common.domain.runs.copying import CopyRange
from srm_common.domain.runs.latency_histogram import LatencyHistogram, bucket_of
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import (
    AccessDenied,
    CorruptBatch,
    NoSuchPartition,
    PartitionError,
    RecordTooLarge,
    SrmError,
)
from srm_common.replication.slots.ranges import RangeState, SentBatch
from srm_common.replication.slots.share import Share
from srm_common.wire.batches.batch import Packed
from srm_common.wire.batches.batch_terms import packed_term
from tests.unit.wire.built_batches import packed


@pytest.fixture
def clock() -> list[float]:
    """Its only entry is the time of the range's clock, in seconds."""
    return [1000.0]


@pytest.fixture
def state(clock: list[float]) -> RangeState:
    return RangeState(CopyRange("orders", "a.orders", 3, 100, 200), clock=lambda: clock[0])


def copied(state: RangeState, one: Packed, base_offset: int) -> Share:
    share = state.open_share()
    share.upstream_end = one.upstream_end
    share.acknowledge(one, base_offset)
    state.fetched = max(state.fetched, one.upstream_end)
    return share


def test_a_share_has_the_fingerprint_of_what_was_acknowledged_at_its_offsets(state: RangeState) -> None:
    one, other = packed((100, 5, 5)), packed((105, 7, 7), size=40, again=True)
    share = copied(state, one, 70)
    copied(state, other, 90)
    terms = packed_term(one), packed_term(other)
    digest = terms[0] * offset_factor(70) + terms[1] * offset_factor(90)
    assert share.fingerprint == fingerprint_of(digest, sum(terms))
    # A chunk that was started over leaves nothing behind.
    state.start_over(keep_acknowledged=False)
    assert state.open_share().fingerprint == NO_BATCHES


def test_what_was_acknowledged_beyond_the_end_is_not_kept(state: RangeState) -> None:
    """Its offset record would be refused once more, and so on for ever; what lies before a refused batch is kept."""
    copied(state, packed((100, 5, 5)), 70)
    state.stop_at(105, RecordTooLarge("the batch"))
    state.start_over(keep_acknowledged=True)
    assert state.acknowledged_only
    state.stop_at(100, AccessDenied("the offset record"))
    state.start_over(keep_acknowledged=True)
    assert (state.acknowledged_only, state.share, state.fetched, state.settled) == (False, None, 100, True)


def test_a_batch_before_the_end_of_its_copy_spoils_the_chunk(state: RangeState) -> None:
    """If only the chunk's own batches are gone, they are copied again; the range stops where committed ones are."""
    copied(state, packed((100, 5, 5)), 70)
    state.commit(0)
    copied(state, packed((105, 5, 5)), 80)
    assert state.open_share().downstream_end == 85
    assert "took a batch at offset 82, before its end 85" in str(state.stored_before_its_end(82, "b"))
    assert state.error is None
    state.start_over(keep_acknowledged=True)
    assert (state.share, state.fetched, state.open_share().downstream_end) == (None, 105, 75)
    assert "this run has committed it up to offset 75" in str(state.stored_before_its_end(74, "b"))
    assert (state.result().error_kind, state.end, state.settled) == ("DataLost", 105, True)


def done(state: RangeState) -> bool:
    return state.settled


def waits(state: RangeState) -> bool:
    return state.paused


# ---- from start to end


def test_a_range_is_settled_at_its_end(state: RangeState) -> None:
    assert not done(state)
    assert state.wants_fetch
    copied(state, packed((100, 100, 100)), 0)
    assert not done(state)
    assert (state.wants_fetch, state.fetched) == (False, 200)
    state.commit(2000.0)
    assert done(state)
    assert state.result().error is None


def test_an_empty_range_is_settled_at_once() -> None:
    state = RangeState(CopyRange("orders", "a.orders", 0, 7, 7))
    assert done(state)
    assert not state.wants_fetch


def test_commits_add_up(state: RangeState) -> None:
    copied(state, packed((100, 40, 40), newest=1000), 0)
    state.commit(1500.0)
    assert state.committed == 140
    assert state.share is None
    copied(state, packed((140, 60, 50), newest=4000, again=True), 40)
    state.commit(4100.0)
    state.commit(9999.0)  # nothing was in this chunk
    result = state.result()
    assert (result.start, result.position, result.end) == (100, 200, 200)
    assert (result.copied.records, result.copied.bytes, result.copied.batches) == (90, 200, 2)
    assert (result.copied.reencoded_batches, result.copied.reencoded_records) == (1, 50)
    assert (result.copied.latency_ms_min, result.copied.latency_ms_max) == (100.0, 500.0)
    assert (result.copied.latency_ms_sum, result.copied.latency_samples) == (600.0, 2)
    assert result.copied.latencies.records == 90
    assert result.copied.last_timestamp_ms == 4000


def test_chunks_without_anything_to_copy_belong_to_the_next_segment(state: RangeState) -> None:
    def nothing(until: int) -> None:
        state.open_share().upstream_end = until
        state.commit(1500.0)

    nothing(103)
    assert (state.mapped, state.result().unmapped) == (100, 3)
    copied(state, packed((103, 7, 7)), 0)
    state.start_over(keep_acknowledged=False)  # what was aborted is in no segment
    assert state.mapped == 100
    copied(state, packed((103, 7, 7)), 20)
    state.commit(1500.0)
    assert (state.mapped, state.result().unmapped) == (110, 0)
    nothing(111)
    nothing(114)
    assert (state.mapped, state.committed) == (110, 114)
    later = RangeState(CopyRange("orders", "a.orders", 3, 114, 200, unmapped=state.result().unmapped))
    assert later.mapped == 110


def test_a_range_without_times_has_no_delay(state: RangeState) -> None:
    copied(state, packed((100, 40, 40), newest=-1), 0)
    state.commit(1500.0)
    result = state.result()
    assert (result.copied.latency_ms_min, result.copied.latency_ms_max, result.copied.last_timestamp_ms) == (
        None,
        None,
        None,
    )
    assert (result.copied.latency_ms_sum, result.copied.latency_samples) == (0.0, 0)
    assert result.copied.latencies.counts == ()


@given(
    st.lists(st.tuples(st.integers(-5_000, 10**9), st.integers(1, 100)), min_size=1, max_size=50),
    st.integers(0, 60_000),
)
def test_every_record_of_a_chunk_is_in_the_bucket_of_its_latency_or_the_next(
    batches: list[tuple[int, int]], lasted_ms: int
) -> None:
    state = RangeState(CopyRange("orders", "a.orders", 0, 0, 10**9))
    share = state.open_share()
    committed_ms = share.opened_ms + lasted_ms
    offset = 0
    for age_ms, records in batches:
        share.acknowledge(packed((offset, records, records), newest=share.opened_ms - age_ms), offset)
        offset += records
    share.upstream_end = offset
    state.commit(committed_ms)
    histogram = state.result().copied.latencies
    exact = LatencyHistogram.sum(
        LatencyHistogram.of({bucket_of(lasted_ms + age_ms): records}) for age_ms, records in batches
    )
    assert histogram.records == exact.records == offset
    for bucket, _ in exact.counts:
        # Rounded down is written earlier: never a bucket before its own, and at most one after it.
        below = sum(records for one, records in exact.counts if one < bucket)
        assert sum(records for one, records in histogram.counts if one < bucket) <= below
        assert sum(records for one, records in histogram.counts if one <= bucket) >= below


def test_however_many_batches_of_a_backlog_a_chunk_has_it_keeps_few_numbers() -> None:
    share = RangeState(CopyRange("orders", "a.orders", 0, 0, 10**9)).open_share()
    for number in range(20_000):
        share.acknowledge(packed((number, 1, 1), newest=share.opened_ms - 64 - number * 37), number)
    assert len(share.stamps) < 700
    assert sum(share.stamps.values()) == 20_000


def test_one_request_at_a_time(state: RangeState) -> None:
    state.fetching = True
    assert not state.wants_fetch


# ---- starting over


def test_a_failed_transaction_is_forgotten(state: RangeState) -> None:
    copied(state, packed((100, 40, 40)), 0)
    state.commit(0.0)
    copied(state, packed((140, 10, 10)), 40)
    state.empty_answers = 2
    state.start_over(keep_acknowledged=False)
    assert (state.fetched, state.committed, state.share, state.empty_answers) == (140, 140, None, 0)
    assert state.result().copied.records == 40


def test_without_transactions_what_was_acknowledged_stays(state: RangeState) -> None:
    share = copied(state, packed((100, 40, 40)), 0)
    share.upstream_end = state.fetched = 180  # sent, never answered
    state.start_over(keep_acknowledged=True)
    assert state.fetched == 140
    assert state.share is share
    assert share.upstream_end == 140
    assert state.acknowledged_only
    state.commit(0.0)
    assert state.committed == 140


def test_without_transactions_and_without_an_answer(state: RangeState) -> None:
    state.fetched = 150
    state.start_over(keep_acknowledged=True)
    assert state.fetched == 100
    assert not state.acknowledged_only


# ---- giving up


def test_copying_goes_on_up_to_what_cannot_be_copied(state: RangeState) -> None:
    state.fetched = 180
    state.stop_at(150, CorruptBatch("broken at 150"))
    assert (state.end, state.fetched) == (150, 150)
    assert not done(state)
    copied(state, packed((100, 50, 50)), 0)
    state.commit(0.0)
    assert done(state)
    result = state.result()
    assert (result.position, result.end) == (150, 200)  # the end that was asked for
    assert (result.error, result.error_kind) == ("broken at 150", "CorruptBatch")


def test_the_first_of_two_faults_is_told_and_the_lower_offset_counts(state: RangeState) -> None:
    state.stop_at(150, CorruptBatch("first"))
    state.stop_at(170, RecordTooLarge("second"))
    assert state.end == 150
    state.stop_at(120, RecordTooLarge("third"))
    assert state.end == 120
    assert state.result().error == "first"


def test_nothing_committed_is_taken_back(state: RangeState) -> None:
    copied(state, packed((100, 50, 50)), 0)
    state.commit(0.0)
    state.stop_at(120, PartitionError("late"))
    assert (state.end, state.committed, state.settled) == (150, 150, True)


def test_a_batch_is_corrupt_when_two_chunks_without_a_commit_had_it_refused(state: RangeState) -> None:
    first, second = (SentBatch(state.downstream, offset) for offset in (100, 150))
    own = SentBatch(TopicPartition("offsets", 3), None)
    # Several batches of one chunk with the flow's records for a partition are one and the same.
    assert not any(state.refused_as_corrupt(batch) for batch in (first, second, own, own))
    state.start_over(keep_acknowledged=False)
    state.start_over(keep_acknowledged=False)
    assert state.refused_as_corrupt(second)
    assert state.refused_as_corrupt(own)
    copied(state, packed((100, 50, 50)), 0)
    state.commit(0.0)
    assert not state.refused_as_corrupt(second)
    state.start_over(keep_acknowledged=False)
    assert state.refused_as_corrupt(second)


def test_a_commit_with_nothing_of_a_range_ends_no_fault_of_it(state: RangeState, clock: list[float]) -> None:
    """Without transactions it keeps its share while others commit."""
    batch = SentBatch(state.downstream, 100)
    state.open_share()
    state.refused_as_corrupt(batch)
    assert not state.fault(PartitionError("refused"), 60.0)
    state.start_over(keep_acknowledged=True)
    state.commit(0.0)
    assert state.failing
    assert state.refused_as_corrupt(batch)
    clock[0] += 61
    assert state.fault(PartitionError("refused"), 60.0)


def test_giving_up_keeps_what_was_fetched(state: RangeState) -> None:
    state.fetched = 130
    state.give_up(PartitionError("no leader"))
    assert (state.end, state.settled) == (130, False)


def test_faults_wait_longer_each_time(state: RangeState, clock: list[float]) -> None:
    pauses = []
    for _ in range(9):
        assert not state.fault(PartitionError("no leader"), 60.0)
        assert waits(state)
        assert not state.wants_fetch
        pauses.append(state.pause_until - clock[0])
        clock[0] = state.pause_until
    assert pauses[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert pauses[-1] == pytest.approx(2.0)
    assert not waits(state)
    assert state.wants_fetch


def test_patience_ends_without_progress_and_begins_anew_with_it(state: RangeState, clock: list[float]) -> None:
    assert not state.fault(PartitionError("no leader"), 10.0)
    clock[0] += 9
    assert not state.fault(PartitionError("no leader"), 10.0)
    copied(state, packed((100, 1, 1)), 0)
    state.commit(0.0)
    clock[0] += 9
    assert not state.fault(PartitionError("no leader"), 10.0)
    clock[0] += 10.5
    assert state.fault(PartitionError("no leader"), 10.0)
    assert state.result().error == "no leader; gave up after retrying"
    assert done(state)


def test_the_first_fault_is_told_too(state: RangeState, clock: list[float]) -> None:
    state.fault(PartitionError("disk full"), 10.0)
    clock[0] += 5
    state.fault(PartitionError("no leader"), 10.0)
    clock[0] += 6
    assert state.fault(PartitionError("no leader"), 10.0)
    assert state.result().error == "no leader; gave up after retrying; first error: disk full"


@pytest.mark.parametrize("kind", [NoSuchPartition, AccessDenied])
def test_what_does_not_exist_is_waited_for_shortly(state: RangeState, clock: list[float], kind: type[SrmError]) -> None:
    assert not state.fault(PartitionError("no leader"), 600.0)
    clock[0] += 30  # a broker that comes back may not know its topics at once
    assert not state.fault(kind("unknown"), 600.0)
    clock[0] += 4
    assert not state.fault(kind("unknown"), 600.0)
    clock[0] += 2
    assert state.fault(kind("unknown"), 600.0)
    result = state.result()
    assert (result.error, result.error_kind) == ("unknown", kind.__name__)


def test_a_pause_is_over_after_its_time(state: RangeState, clock: list[float]) -> None:
    state.fault(PartitionError("no leader"), 10.0)
    assert waits(state)
    clock[0] += 0.07
    assert not waits(state)
    assert state.wants_fetch


def cut_off(state: RangeState, offset: int = 120, leader: int = 1) -> bool:
    """A closed connection, as a slot hears of it; whether the batch is the reason."""
    found = state.was_cut_off(SentBatch(state.downstream, offset), 2_000_000, leader, "b")
    if not found:
        state.fault(PartitionError("a leader at b did not respond"), 60.0)
    return found


def test_a_batch_at_which_one_leader_closes_each_connection_is_the_reason(state: RangeState) -> None:
    assert not cut_off(state)
    # What happens at the source says nothing of the target.
    state.fault(PartitionError("broker 1 of a did not respond"), 60.0, at_source=True)
    assert not cut_off(state)
    assert cut_off(state)
    assert isinstance(state.error, RecordTooLarge)
    assert "while it was receiving the batch at offset 120, which has 2000000 bytes" in str(state.error)


@pytest.mark.parametrize("between", ["another fault", "a commit", "another leader", "another batch"])
def test_closed_connections_that_are_not_in_a_row_are_not_counted_together(state: RangeState, between: str) -> None:
    for _ in range(4):
        assert not cut_off(state)
        if between == "another fault":
            state.fault(PartitionError("a leader at b did not respond"), 60.0)
        elif between == "a commit":
            start = state.committed
            copied(state, packed((start, start, start)), 70 + start)
            state.commit(0)
        elif between == "another leader":
            assert not cut_off(state, leader=2)
        else:
            assert not cut_off(state, offset=110)
    assert state.error is None
