from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.runs.copying import CopyStats, RangeResult, SlotResult
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.partition_track import LONGEST_REST_SECONDS, PartitionTrack, is_final

SPREAD = LatencyHistogram(((2, 5), (8, 10)))
COPIED = CopyStats(
    records=15,
    bytes=1500,
    latency_ms_min=2.0,
    latency_ms_max=9.0,
    latency_ms_sum=44.0,
    latency_samples=4,
    latencies=SPREAD,
    last_timestamp_ms=1000,
)
RESULT = RangeResult("t", "a.t", 0, start=10, position=30, end=30, copied=COPIED)
SLOT = SlotResult(0, (RESULT,), transactions=3, retries=1)


@pytest.fixture
def track() -> PartitionTrack:
    track = PartitionTrack("t", "a.t", 0, position=10)
    track.listed(30)
    return track


def test_results_add_up(track: PartitionTrack) -> None:
    assert track.absorb(RESULT, SLOT, 0.0)
    assert track.reached_goal()
    track.listed(50)
    assert track.lag == 20
    sooner = replace(COPIED, latency_ms_min=1.0, last_timestamp_ms=900)
    later = replace(RESULT, start=30, position=50, end=50, copied=sooner)
    assert track.absorb(later, SLOT, 0.0)
    copied = track.copied
    assert (track.records, copied.bytes, track.offsets_done) == (30, 3000, 40)
    assert (copied.latency_ms_min, copied.latency_ms_max, copied.latency_samples) == (1.0, 9.0, 8)
    assert copied.latency_ms_avg == 11.0
    assert copied.latencies == LatencyHistogram(((2, 10), (8, 20)))
    assert copied.last_timestamp_ms == 1000
    assert (track.transactions, track.retries) == (6, 2)
    assert track.record_bytes == 100.0
    assert track.lag == 0


def test_a_log_that_was_truncated_before_it_was_copied_is_copied_to_its_new_end(track: PartitionTrack) -> None:
    track.absorb(replace(RESULT, position=24), SLOT, 0.0)
    assert not track.reached_goal()
    track.listed(24)
    assert track.reached_goal()
    track.listed(40)
    assert track.reached_goal()


def test_what_held_nothing_is_forgotten_when_the_position_moves(track: PartitionTrack) -> None:
    assert track.unmapped == 0
    track.absorb(replace(RESULT, unmapped=4), SLOT, 0.0)
    assert track.unmapped == 4
    track.reposition(30)
    assert track.unmapped == 4
    track.reposition(35)  # somebody has set the offset
    assert track.unmapped == 0


def test_a_fault_rests_longer_each_time_and_is_forgotten_when_it_heals(track: PartitionTrack) -> None:
    rests = []
    for _ in range(8):
        track.absorb(replace(RESULT, position=10, error="no leader", error_kind="PartitionError"), SLOT, 100.0)
        rests.append(track.rest_until - 100.0)
    assert rests[:3] == [2.0, 4.0, 8.0]
    assert rests[-1] == LONGEST_REST_SECONDS
    assert (track.error, track.final) == ("no leader", False)
    track.absorb(RESULT, SLOT, 200.0)
    assert track.error is None
    assert track.rest_until == 0.0


@pytest.mark.parametrize(
    ("kind", "final"),
    [
        ("DataLost", True),
        ("RecordTooLarge", True),
        ("CorruptBatch", True),
        ("TransformFailed", True),
        ("CorruptRecord", True),
        ("AccessDenied", True),
        ("UnreachableCluster", False),
        ("PartitionError", False),
        ("NobodyKnows", False),
        ("annotations", False),
    ],
)
def test_what_only_an_operator_mends_is_final(kind: str, final: bool) -> None:
    assert is_final(kind) is final


def test_offsets_read_again_may_be_further_than_what_was_reported(track: PartitionTrack) -> None:
    assert track.reposition(25)
    assert (track.position, track.records, track.record_bytes) == (25, 15, None)
    assert not track.reposition(25)
    assert not track.reposition(None)
    assert track.position is None
    assert track.lag == 0


def test_progress_during_a_pass(track: PartitionTrack) -> None:
    assert (track.progress(5).done, track.progress(5).left) == (5, 15)
    assert (track.progress(50).left, track.progress().failed) == (0, 0)
