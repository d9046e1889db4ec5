from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, build_segment
from srm_common.domain.verification.copy_batch import CopyBatch
from srm_common.domain.verification.copy_comparison import CopyComparison
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.unmapped_batches import CopyTraits
from tests.unit.domain.verification.simulated_copies import (
    FAULTS,
    FLOW,
    OTHER,
    Content,
    Copy,
    Fault,
    copies,
    foreign_record,
)


def small() -> Copy:
    """Three chunks of two batches, ten records each."""
    copy = Copy()
    for chunk in range(3):
        copy.commit([Content(100 * chunk + number, 1000, 10) for number in (1, 2)], [0, 0])
    return copy


@given(copies())
def test_a_copy_as_it_was_committed_is_proved_to_its_end(copy: Copy) -> None:
    findings = copy.compare()
    assert not findings.different, str(findings.differences[0])
    assert findings.not_proved == {}
    assert findings.proved == sum(batch.records for batch in copy.batches)
    assert (findings.proved_from, findings.proved_to) == (copy.segments[0].upstream_start, copy.upstream)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@given(copies(least=2), st.data())
def test_each_fault_is_found_and_named(fault: Fault, copy: Copy, data: st.DataObject) -> None:
    segment = data.draw(st.integers(0, len(copy.segments) - 1))
    batch = data.draw(st.sampled_from(copy.chunks[segment]))
    place = copy.batches[batch]
    if len(copy.segments) < 2 and fault.__name__ == "lost_map":
        return
    copy, traits = fault(copy, segment, batch)
    findings = copy.compare(traits)
    assert FAULTS[fault] in findings.counts, findings
    if fault.__name__ not in ("truncated_log", "lost_map", "swapped_batches"):
        assert set(findings.counts) == {FAULTS[fault]}
    first = findings.differences[0]
    assert findings.proved_to <= place.base_offset + copy.upstream
    if FAULTS[fault] in (DifferenceKind.CORRUPT, DifferenceKind.LOST):
        assert (first.downstream_first, first.downstream_last) == (place.base_offset, place.next_offset - 1)
    elif fault.__name__ in ("changed_byte", "wrong_timestamp", "compaction"):
        assert first.downstream_first <= place.base_offset < place.next_offset <= first.downstream_last + 1


@given(copies(), st.data())
def test_retention_takes_what_is_proved_and_is_no_difference(copy: Copy, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, copy.end))
    findings = copy.compare(start=start)
    assert not findings.different
    whole = [segment for segment in copy.segments if segment.downstream_start >= start]
    assert findings.proved == sum(run.length for segment in whole for run in segment.runs)
    assert set(findings.not_proved) <= {NotProved.RETENTION}


@given(copies(), st.data())
def test_what_is_committed_while_the_map_is_read_is_no_difference(copy: Copy, data: st.DataObject) -> None:
    """The log was listed before: it ends between two chunks, and has grown since."""
    last = data.draw(st.integers(0, len(copy.segments) - 1))
    end = copy.segments[last].downstream_start
    comparison = CopyComparison(copy.segments, LogRange(0, end), copy.end, CopyTraits(position=copy.upstream))
    for batch in copy.batches:
        if batch.base_offset < end:
            comparison.take(batch)
    findings = comparison.finish()
    assert not findings.different
    assert findings.segments == last


def test_segments_without_a_fingerprint_are_looked_at_for_holes_only() -> None:
    copy = small()
    copy.segments[1] = replace(copy.segments[1], fingerprint=None)
    findings = copy.compare()
    assert (findings.proved, findings.not_proved, findings.different) == (40, {NotProved.NO_FINGERPRINT: 20}, False)
    del copy.batches[2]
    (lost,) = copy.compare().differences
    assert str(lost) == "offsets 21 to 30 (upstream offsets 20 to 29): committed records are missing"


def test_a_log_that_is_cut_between_two_chunks_is_truncated() -> None:
    copy = small()
    copy.batches = copy.batches[:4]
    findings = copy.compare(end=42)
    assert findings.differences == [Difference(DifferenceKind.TRUNCATED, 42, 61, 40, 59)]
    assert findings.proved_to == 40


def test_compaction_is_no_difference_where_the_topic_is_compacted() -> None:
    copy = small()
    copy.batches[0] = copy.batches[0]._replace(records=3)
    del copy.batches[3]
    findings = copy.compare(CopyTraits(compacted=True))
    assert (findings.proved, findings.not_proved, findings.different) == (20, {NotProved.COMPACTED: 40}, False)


def test_other_bytes_of_a_topic_whose_brokers_compress_again_are_not_proved() -> None:
    copy = small()
    copy.put(2, Content(5, 1000, 10))
    findings = copy.compare(CopyTraits(recompressed=True))
    assert (findings.proved, findings.not_proved, findings.different) == (40, {NotProved.RECOMPRESSED: 20}, False)


def test_records_of_other_flows_in_a_shared_topic_are_counted() -> None:
    copy = small()
    foreign_record(copy, 0, 0)
    copy.end += 1
    copy.commit([Content(77, 1000, 5)], [0])
    assert copy.compare(CopyTraits(shared=True)).foreign == 1
    assert [str(difference) for difference in copy.compare().differences] == [
        "offset 63: records that the flow did not write"
    ]


def test_a_chunk_among_batches_of_others_is_proved_by_its_producer() -> None:
    """Merged runs tell only that others wrote between the flow's batches."""
    copy = Copy()
    mine, theirs = Content(1, 1000, 10), Content(2, 1000, 4)
    clean = Copy()
    clean.commit([mine], [0])
    copy.commit([mine], [0])
    copy.append(theirs, OTHER)
    run = copy.segments[0].runs[0]._replace(length=15, foreign=True)
    copy.segments[0] = replace(copy.segments[0], runs=(run,), downstream_end=15)
    findings = copy.compare()
    assert [difference.kind for difference in findings.differences] == [DifferenceKind.FOREIGN]
    copy.batches[0] = copy.batches[0]._replace(term=99)
    assert copy.compare().not_proved == {NotProved.MIXED: 0}
    assert copy.batches[0].producer == FLOW


def test_what_was_there_before_the_flow_is_not_proved() -> None:
    copy = Copy()
    copy.append(Content(9, 1000, 7), OTHER)
    copy.commit([Content(1, 1000, 10)], [0])
    findings = copy.compare()
    assert (findings.not_proved, findings.different) == ({NotProved.BEFORE_MAP: 7}, False)


def between(records: list[int], untold: int) -> Copy:
    """What MirrorMaker 2 has written between two chunks of the flow, of a stretch of so many upstream offsets."""
    copy = Copy(told=False)
    copy.commit([Content(1, 1000, 10)], [0])
    for number, count in enumerate(records):
        copy.append(Content(50 + number, 1000, count), OTHER)
        copy.end += 1
    copy.upstream += untold
    copy.commit([Content(2, 1000, 10)], [0])
    return copy


def test_what_the_flow_has_not_copied_is_not_proved_and_no_difference() -> None:
    findings = between([4, 3], 8).compare()
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 20, {NotProved.NOT_COPIED: 7})
    assert Findings.from_json(findings.to_json()) == findings


def test_what_mirror_maker_copies_behind_the_newest_segment_is_not_proved() -> None:
    copy = between([4, 3], 8)
    del copy.segments[1], copy.batches[-1]
    findings = copy.compare(CopyTraits(position=18))
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 10, {NotProved.NOT_COPIED: 7})


def test_what_the_source_has_no_room_for_was_written_by_others() -> None:
    """A source's marker is a gap, too."""
    (difference,) = between([4, 3], 6).compare().differences
    assert str(difference) == (
        "offsets 11 to 18 (upstream offsets 10 to 15): records that the flow did not write; 7 records, of a stretch of "
        "6 offsets at the most"
    )
    assert [one.kind for one in between([4, 3], 0).compare().differences] == [DifferenceKind.FOREIGN]
    assert between([4, 3], 6).compare(CopyTraits(shared=True)).foreign == 7


def test_a_take_over_maps_the_end_of_a_batch() -> None:
    """It compares the last hundred records; what MirrorMaker 2 has batched is none of its business."""
    copy = Copy()
    for number in range(3):
        copy.append(Content(number, 1000, 60), OTHER)
    copy.upstream = 180
    copy.segments = [build_segment("t", 0, 80, 180, [OffsetSpan(80, 100, 80, 100)], 999)]
    copy.commit([Content(9, 1000, 10)], [0])
    findings = copy.compare()
    assert not findings.different, findings.differences
    assert (findings.proved, findings.not_proved) == (10, {NotProved.BEFORE_MAP: 80, NotProved.NO_FINGERPRINT: 100})
    copy.batches.insert(2, copy.batches[1])
    assert copy.compare().counts == {DifferenceKind.DOUBLED: 1}


def test_a_copy_made_again_takes_a_part_of_an_older_segment() -> None:
    """The target's log was cut inside of it, and the rest copied again."""
    copy = small()
    run = copy.segments[1].runs[0]._replace(length=23, upstream_length=23)
    copy.segments[1] = replace(copy.segments[1], downstream_end=44, runs=(run,))
    findings = copy.compare()
    assert (findings.not_proved, findings.proved, findings.different) == ({NotProved.COPIED_AGAIN: 23}, 40, False)


def grown_again(upstream_start: int) -> Copy:
    """The log was cut inside of the second chunk, at 36, and the third was copied from this upstream offset on."""
    copy = small()
    del copy.batches[3:], copy.segments[2]
    one = copy.segments[1]
    copy.segments[1] = replace(one, upstream_end=min(one.upstream_end, upstream_start))
    copy.upstream, copy.end = upstream_start, 36
    copy.commit([Content(300, 1000, 20)], [0])
    copy.batches.insert(3, CopyBatch(31, 36, 5, 7, FLOW))
    return copy


def test_what_a_cut_log_lost_before_it_grew_again_is_no_repetition() -> None:
    """Nothing of it was copied again: the flow went on behind it."""
    for start in (40, 50):
        findings = grown_again(start).compare(CopyTraits())
        (lost,) = findings.differences
        detail = "the log was truncated, and has grown again"
        assert lost == Difference(DifferenceKind.LOST, 36, 40, 35, 39, detail)
        assert (findings.proved, findings.proved_to, findings.not_proved) == (40, 20, {})
    assert grown_again(40).compare(CopyTraits(compacted=True)).counts == {DifferenceKind.LOST: 1}


def test_only_what_was_copied_again_is_a_repetition() -> None:
    findings = grown_again(37).compare(CopyTraits())
    (lost,) = findings.differences
    assert (lost.kind, lost.upstream_first, lost.upstream_last) == (DifferenceKind.LOST, 35, 36)
    assert findings.not_proved == {NotProved.COPIED_AGAIN: 3}
    for start in (35, 32):
        findings = grown_again(start).compare(CopyTraits())
        assert (findings.counts, findings.not_proved) == ({}, {NotProved.COPIED_AGAIN: 20})


def test_a_part_of_the_map_ends_where_the_next_one_begins() -> None:
    """Of a sample, say: batches behind are none of its own."""
    copy = grown_again(40)
    comparison = CopyComparison(copy.segments[1:2], LogRange(0, 36), copy.end, CopyTraits(compacted=True), None, 36)
    for batch in copy.batches[2:4]:
        comparison.take(batch)
    assert [(one.kind, one.upstream_first) for one in comparison.finish().differences] == [(DifferenceKind.LOST, 35)]


def again() -> Copy:
    """Three chunks, and the last two once more."""
    copy = small()
    copy.forget_before(20)
    copy.commit([Content(number, 1000, 10) for number in (101, 102)], [0, 0])
    copy.commit([Content(number, 1000, 10) for number in (201, 202)], [0, 0])
    return copy


def test_what_was_copied_again_is_not_proved_and_no_difference() -> None:
    findings = again().compare()
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 60, {NotProved.COPIED_AGAIN: 40})
    assert (findings.proved_from, findings.proved_to) == (0, 60)
    twice = again()
    twice.forget_before(20)
    twice.commit([Content(101, 1000, 10)], [0])
    findings = twice.compare()
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 30, {NotProved.COPIED_AGAIN: 80})


def test_what_others_write_behind_the_older_copies_is_found() -> None:
    copy = small()
    foreign_record(copy, 0, 0)
    copy.end += 1
    copy.forget_before(20)
    copy.commit([Content(number, 1000, 10) for number in (101, 102)], [0, 0])
    findings = copy.compare()
    assert findings.not_proved == {NotProved.COPIED_AGAIN: 40}
    assert [str(difference) for difference in findings.differences] == [
        "offset 63: records that the flow did not write"
    ]


def test_a_batch_that_no_consumer_takes_is_found_in_older_copies_too() -> None:
    copy = again()
    copy.batches[3] = copy.batches[3]._replace(term=None)
    findings = copy.compare()
    assert [str(difference) for difference in findings.differences] == [
        "offsets 31 to 40: a batch that fails its checksum"
    ]
    assert findings.not_proved == {NotProved.COPIED_AGAIN: 30}


def test_what_is_missing_and_was_copied_again_is_no_difference() -> None:
    """In the middle of a chunk, the rest of which is still what the map tells of."""
    copy = small()
    copy.forget_before(30)
    assert copy.segments[1].upstream_end == 40
    copy.segments[1] = replace(copy.segments[1], upstream_end=30)
    copy.commit([Content(102, 1000, 10)], [0])
    assert copy.compare().not_proved == {NotProved.COPIED_AGAIN: 20}
    del copy.batches[3]
    findings = copy.compare()
    assert (findings.counts, findings.proved, findings.not_proved) == ({}, 30, {NotProved.COPIED_AGAIN: 40})
    del copy.batches[2]
    (lost,) = copy.compare().differences
    assert (lost.kind, lost.upstream_first, lost.upstream_last) == (DifferenceKind.LOST, 20, 29)


def test_a_lost_record_of_the_map_is_told_from_what_mirror_maker_copies() -> None:
    """Of another transaction than those around it, and with nothing left of it."""
    for gone in (False, True):
        copy = small()
        del copy.segments[1]
        copy.batches[2:4] = [] if gone else [batch._replace(producer=OTHER) for batch in copy.batches[2:4]]
        findings = copy.compare()
        kind = DifferenceKind.LOST if gone else DifferenceKind.UNMAPPED
        (told,) = findings.differences
        assert replace(told, detail="") == Difference(kind, 20, 40, 20, 39)
        assert (findings.proved, findings.not_proved) == (40, {})
    assert not copy.compare(start=41).different


def test_the_newest_record_of_the_map_may_be_lost() -> None:
    copy = small()
    del copy.segments[2]
    assert copy.compare().differences == [Difference(DifferenceKind.UNMAPPED, 41, 61, 40, 59)]
    # Committed after the log was looked at, so that it may be in the map by now.
    assert not copy.compare(end=42).different


def test_offsets_that_were_moved_on_leave_no_room_for_others() -> None:
    """What the source has there was left out on purpose, and MirrorMaker 2 did not copy in the meantime."""
    copy = small()
    copy.upstream += 100
    foreign_record(copy, 0, 0)
    copy.end += 1
    copy.commit([Content(7, 1000, 10)], [0])
    findings = copy.compare()
    assert (findings.counts, findings.not_proved) == ({DifferenceKind.FOREIGN: 1}, {})


def test_findings_are_kept_as_json() -> None:
    copy = small()
    copy.put(2, Content(5, 1000, 10))
    copy.segments[2] = replace(copy.segments[2], fingerprint=None)
    findings = copy.compare()
    assert findings.different
    assert Findings.from_json(findings.to_json()) == findings


def test_differences_beyond_the_first_are_counted() -> None:
    copy = Copy()
    for chunk in range(30):
        copy.commit([Content(chunk, 1000, 10)], [0])
        copy.put(chunk, Content(chunk + 100, 1000, 10))
    findings = copy.compare()
    assert (findings.counts, len(findings.differences)) == ({DifferenceKind.CHANGED: 30}, Findings.MOST)
