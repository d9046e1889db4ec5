from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.moving.handover import (
    CopyEnd,
    HandoverPosition,
    SeenRecord,
    Verdict,
    accepted,
    judge_position,
    segment_of,
)
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.offsets.translation import Translated, translate
from srm_common.domain.topic_partition import TopicPartition
from tests.unit.domain.offsets.current_map import current_map

WINDOW = 40
LONG = LogRange(0, 1000)


def seen(*offsets: int) -> list[SeenRecord]:
    """Source records whose content is told by their offset."""
    return [SeenRecord(offset, b"%d" % offset) for offset in offsets]


def copied(*upstream: int, start: int = 0, step: int = 1) -> CopyEnd:
    records = tuple(SeenRecord(start + step * index, b"%d" % one) for index, one in enumerate(upstream))
    return CopyEnd(LogRange(0, start + step * len(upstream)), records)


def judge(
    stored: int | None,
    copy: CopyEnd | str,
    records: list[SeenRecord],
    log: LogRange | str = LONG,
    *,
    read: LogRange = LONG,
    compacted: bool = False,
) -> HandoverPosition:
    return judge_position(TopicPartition("t", 0), stored, log, copy, records, read, compacted=compacted)


def test_a_clean_end_is_proved() -> None:
    position = judge(40, copied(*range(20, 40), start=100), seen(*range(20, 40)))
    assert (position.verdict, position.position, len(position.pairs)) == (Verdict.PROVED, 40, 20)
    assert position.proof == "the copy ends with the source's record 39, 20 records compared"
    assert position.pairs[0] == (20, 100)


def test_markers_behind_the_last_record_do_not_count() -> None:
    """What is stored by our own runs lies behind the markers and aborted records that follow the last record."""
    assert judge(45, copied(*range(20, 40)), seen(*range(20, 40))).position == 45


def test_a_copy_that_is_ahead_is_believed_more_than_the_store() -> None:
    position = judge(40, copied(*range(20, 50)), seen(*range(20, 60)))
    assert (position.verdict, position.position) == (Verdict.AHEAD, 50)
    assert position.proof.endswith("30 records compared: 10 more records than stored")
    far = judge(40, copied(*range(480, 500)), seen(*range(470, 510)), read=LogRange(470, 510))
    assert (far.verdict, far.position) == (Verdict.AHEAD, 500)
    assert far.proof.endswith("at least 30 more records than stored")


def test_a_copy_that_is_behind_sends_the_flow_back() -> None:
    position = judge(40, copied(*range(10, 30)), seen(*range(10, 50)))
    assert (position.verdict, position.position) == (Verdict.BEHIND, 30)
    assert position.proof.endswith("20 records compared: 10 fewer records than stored")
    far = judge(400, copied(*range(10, 30)), seen(*range(10, 30)), read=LogRange(10, 30))
    assert (far.verdict, far.position) == (Verdict.BEHIND, 30)


def test_a_lost_store_is_found_again_from_the_copy() -> None:
    position = judge(None, copied(*range(20, 40)), seen(*range(10, 60)))
    assert (position.verdict, position.position) == (Verdict.AHEAD, 40)
    assert position.proof.startswith("nothing is stored, but the copy ends with the source's record 39")


def test_few_equal_records_prove_a_whole_copy_and_nothing_of_a_long_one() -> None:
    assert judge(2, copied(0, 1, 2), seen(*range(10))).verdict is Verdict.AHEAD
    mixed = CopyEnd(LogRange(0, 40), tuple(SeenRecord(n, b"x%d" % n) for n in range(30)) + tuple(seen(7, 8)))
    assert judge(7, mixed, seen(*range(10))).verdict is Verdict.UNPROVED


def test_records_that_repeat_themselves_prove_no_other_place() -> None:
    same = [SeenRecord(offset, b"tick") for offset in range(100)]
    copy = CopyEnd(LogRange(0, 20), tuple(same[:20]))
    assert judge(30, copy, same).verdict is Verdict.PROVED
    assert judge(None, copy, same).verdict is Verdict.UNPROVED


def test_compacted_sources() -> None:
    """The source keeps 30 and 38 of what was copied."""
    position = judge(40, copied(*range(20, 40)), seen(30, 38, 41), compacted=True)
    assert (position.verdict, position.position) == (Verdict.BELIEVED, 40)
    assert "compacted" in position.proof
    assert judge(40, copied(*range(20, 40)), seen(30, 38, 41)).verdict is Verdict.UNPROVED
    assert judge(38, copied(*range(20, 40)), seen(30, 38, 41), compacted=True).verdict is Verdict.UNPROVED


def test_what_cannot_be_compared() -> None:
    assert judge(40, "it does not exist on the target", []).proof == "it does not exist on the target"
    assert judge(40, copied(1), [], "no leader").verdict is Verdict.UNPROVED
    expired = judge(40, CopyEnd(LogRange(90, 90), ()), seen(39))
    assert (expired.verdict, expired.position) == (Verdict.BELIEVED, 40)
    assert judge(40, CopyEnd(LogRange(0, 0), ()), seen(39)).verdict is Verdict.UNPROVED
    assert judge(None, CopyEnd(LogRange(0, 0), ()), []).position is None
    beyond = judge(40, copied(1, 2), seen(1, 2), LogRange(0, 3))
    assert beyond.verdict is Verdict.UNPROVED
    assert "truncated or created again" in beyond.proof
    gone = judge(40, copied(38, 39), seen(*range(50, 60)), LogRange(50, 60))
    assert (gone.verdict, gone.position) == (Verdict.BELIEVED, 40)
    assert "10 offsets after it are gone" in gone.proof


def test_foreign_records_at_the_end() -> None:
    copy = CopyEnd(LogRange(0, 40), (*copied(*range(20, 40)).records, SeenRecord(40, b"foreign")))
    position = judge(40, copy, seen(*range(20, 60)))
    assert (position.verdict, position.position) == (Verdict.UNPROVED, 40)
    assert "something else writes" in position.proof
    assert accepted(position).verdict is Verdict.BELIEVED


@given(
    holes=st.sets(st.integers(0, 199)),
    compared=st.integers(1, WINDOW),
    end=st.integers(1, 200),
    stored=st.integers(0, 200),
    step=st.integers(1, 3),
)
def test_any_place_within_sight_is_found(holes: set[int], compared: int, end: int, stored: int, step: int) -> None:
    """Whatever is stored: the position leaves no visible record out and repeats none."""
    visible = [offset for offset in range(200) if offset not in holes]
    upstream = [offset for offset in visible if offset < end][-compared:]
    copy = copied(*upstream, start=step, step=step)
    records = seen(*(offset for offset in visible if offset < max(stored, end) + WINDOW))
    position = judge(stored, copy, records, LogRange(0, 200))
    if not upstream:
        assert position.position == stored
        return
    assert position.verdict in (Verdict.PROVED, Verdict.AHEAD, Verdict.BEHIND)
    assert position.position is not None
    left = [offset for offset in visible if offset >= position.position]
    assert left == [offset for offset in visible if offset > upstream[-1]]


@given(
    content=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=60),
    data=st.data(),
)
def test_whatever_repeats_itself_an_unproved_place_stays(content: list[bytes], data: st.DataObject) -> None:
    """Content that is not unique never sends a flow beyond the copy's true end."""
    records = [SeenRecord(offset, digest) for offset, digest in enumerate(content)]
    end = data.draw(st.integers(1, len(records)))
    stored = data.draw(st.integers(0, end))
    window = data.draw(st.integers(1, end))
    copy = CopyEnd(LogRange(0, end), tuple(records[end - window : end]))
    position = judge(stored, copy, records, LogRange(0, len(records)))
    if position.verdict is Verdict.UNPROVED:
        assert position.position == stored


def test_compared_records_become_a_piece_of_the_map() -> None:
    handover_position = judge(
        45, copied(*range(20, 30), *range(35, 40), start=100), seen(*range(20, 30), *range(35, 40))
    )
    segment = segment_of(handover_position, None)
    assert segment == Segment("t", 0, 20, 45, 100, 115, (OffsetSpan(20, 10, 100, 10), OffsetSpan(35, 5, 110, 5)))
    for position, downstream in ((20, 100), (25, 105), (32, 110), (37, 112), (45, 115)):
        assert translate([segment], position) == Translated(downstream, exact=True)


def test_what_the_map_covers_is_left_alone() -> None:
    position = judge(40, copied(*range(20, 40), start=100), seen(*range(20, 40)))
    older = Segment("t", 0, 0, 30, 80, 110, (OffsetSpan(0, 30, 80, 30),))
    newer = segment_of(position, older)
    assert newer is not None
    assert (newer.upstream_start, newer.downstream_start) == (30, 110)
    assert current_map([older, newer]) == [older, newer]
    assert segment_of(position, Segment("t", 0, 0, 40, 80, 120, (OffsetSpan(0, 40, 80, 40),))) is None
    assert segment_of(judge(40, "gone", []), None) is None
