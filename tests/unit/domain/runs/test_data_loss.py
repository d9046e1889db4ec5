from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.runs.data_loss import Bookmark, Finding, Loss, SourceLog, decide, find_loss

offsets = st.integers(0, 1 << 62)
ids = st.sampled_from([None, "id-1", "id-2"])
logs = st.builds(lambda a, b, topic_id: SourceLog("orders", 3, min(a, b), max(a, b), topic_id), offsets, offsets, ids)
bookmarks = st.builds(Bookmark, offsets, ids, st.none() | offsets)


@given(bookmarks, logs)
def test_nothing_is_found_exactly_when_the_position_lies_inside_the_log_of_the_same_topic(
    bookmark: Bookmark, log: SourceLog
) -> None:
    other = bookmark.topic_id and log.topic_id and bookmark.topic_id != log.topic_id
    inside = log.start <= bookmark.offset <= log.end
    assert (find_loss(bookmark, log) is None) == (inside and not other)


@given(bookmarks, logs, st.sampled_from(OnDataLoss))
def test_a_decision_starts_inside_the_log_or_stops_with_the_count(
    bookmark: Bookmark, log: SourceLog, choice: OnDataLoss
) -> None:
    finding = find_loss(bookmark, log)
    assume(finding is not None)
    assert finding is not None
    decision = decide(finding, choice)
    assert decision.lost_records == finding.count >= 0
    assert (decision.start is None) != (decision.error is None)
    if choice is OnDataLoss.FAIL:
        assert decision.error is not None
        assert str(finding.count) in decision.error
        assert "orders-3" in decision.error
    else:
        assert decision.start is not None
        assert log.start <= decision.start <= log.end


@given(bookmarks, logs)
def test_a_record_that_can_be_read_and_was_not_copied_is_never_passed_over(bookmark: Bookmark, log: SourceLog) -> None:
    finding = find_loss(bookmark, log)
    assume(finding is not None)
    assert finding is not None
    assert decide(finding, OnDataLoss.RESET).start == log.start
    if finding.loss is not Loss.TRUNCATED:
        assert decide(finding, OnDataLoss.SKIP).start == log.start
    else:
        assert decide(finding, OnDataLoss.SKIP).start == log.end


@pytest.mark.parametrize(
    ("bookmark", "log", "loss", "count"),
    [
        (Bookmark(10, "x"), SourceLog("t", 0, 25, 90, "x"), Loss.RETENTION, 15),
        (Bookmark(10, "x"), SourceLog("t", 0, 0, 4, "x"), Loss.TRUNCATED, 6),
        (Bookmark(10, "x", 70), SourceLog("t", 0, 0, 90, "y"), Loss.RECREATED, 60),
        (Bookmark(10, "x"), SourceLog("t", 0, 0, 4, "y"), Loss.RECREATED, 0),
        (Bookmark(10, "x", 5), SourceLog("t", 0, 0, 90, "y"), Loss.RECREATED, 0),
    ],
)
def test_what_was_lost(bookmark: Bookmark, log: SourceLog, loss: Loss, count: int) -> None:
    finding = find_loss(bookmark, log)
    assert finding == Finding(loss, bookmark, log, count)


def test_the_sentence_names_the_partition_both_positions_and_the_way_out() -> None:
    finding = find_loss(Bookmark(10, "x"), SourceLog("t", 0, 25, 90, "x"))
    assert finding is not None
    assert decide(finding, OnDataLoss.FAIL).error == (
        "t-0: 15 offsets were deleted at the source before they were copied (the log starts at 25, the "
        "copied position is 10); set on.data.loss to skip or reset to go on without them"
    )
