from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.runs.data_loss import (
    UNKNOWN_EPOCH,
    Bookmark,
    EpochEnd,
    Finding,
    LeaderEpochs,
    Loss,
    SourceLog,
    decide,
    find_loss,
)

offsets = st.integers(0, 1 << 62)
ids = st.sampled_from([None, "id-1", "id-2"])
logs = st.builds(lambda a, b, topic_id: SourceLog("orders", 3, min(a, b), max(a, b), topic_id), offsets, offsets, ids)
bookmarks = st.builds(Bookmark, offsets, ids, st.none() | offsets)
epochs = st.integers(-1, 4)
ends = st.none() | st.builds(EpochEnd, st.integers(0, 4), offsets)
#: As before, but the leader was asked where the epoch of the last offset copied ends.
epoch_logs = st.builds(
    lambda log, end, compacted: replace(log, epoch_end=end, compacted=compacted), logs, ends, st.booleans()
)
epoch_bookmarks = st.builds(lambda bookmark, epoch: replace(bookmark, leader_epoch=epoch), bookmarks, epochs)


@st.composite
def positions_inside_the_same_topic(draw: st.DrawFn) -> tuple[Bookmark, SourceLog]:
    """A position that its log holds, in a topic that nobody made anew: only epochs can tell that the log parted."""
    log = draw(epoch_logs)
    bookmark = replace(draw(epoch_bookmarks), offset=draw(st.integers(log.start, log.end)))
    return replace(bookmark, topic_id=draw(st.sampled_from([None, log.topic_id]))), log


@given(bookmarks, logs)
def test_nothing_is_found_exactly_when_the_position_lies_inside_the_log_of_the_same_topic(
    bookmark: Bookmark, log: SourceLog
) -> None:
    other = bookmark.topic_id and log.topic_id and bookmark.topic_id != log.topic_id
    inside = log.start <= bookmark.offset <= log.end
    assert (find_loss(bookmark, log) is None) == (inside and not other)


@given(epoch_bookmarks, epoch_logs, st.sampled_from(OnDataLoss))
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


@given(positions_inside_the_same_topic())
def test_a_log_that_parts_before_the_position_is_copied_again_from_there(place: tuple[Bookmark, SourceLog]) -> None:
    bookmark, log = place
    finding, end = find_loss(bookmark, log), log.epoch_end
    parts = bookmark.leader_epoch >= 0 and end is not None and end.offset < bookmark.offset
    if finding is None:
        assert not parts
        return
    assert end is not None
    assert finding.loss is Loss.DIVERGED
    assert parts or (end.epoch < bookmark.leader_epoch and not log.compacted)
    assert decide(finding, OnDataLoss.SKIP).start == max(log.start, min(end.offset, bookmark.offset))
    assert str(bookmark.offset) in str(finding)
    assert str(min(end.offset, bookmark.offset)) in str(finding)


def test_a_new_leader_that_lost_nothing_is_no_loss() -> None:
    bookmark = Bookmark(100, "x", leader_epoch=4)
    log = SourceLog("t", 0, 0, 900, "x", compacted=False)
    assert find_loss(bookmark, replace(log, epoch_end=EpochEnd(4, 100))) is None
    assert find_loss(bookmark, replace(log, epoch_end=EpochEnd(4, 900))) is None
    # A replica that was made from a compacted log has no entry for an epoch of which no batch was left.
    assert find_loss(bookmark, replace(log, epoch_end=EpochEnd(2, 300), compacted=True)) is None
    assert find_loss(bookmark, replace(log, epoch_end=EpochEnd(2, 300))) is not None


def test_a_truncated_log_is_copied_again_from_where_it_parts() -> None:
    log = SourceLog("t", 0, 0, 80, "x", epoch_end=EpochEnd(4, 60))
    finding = find_loss(Bookmark(100, "x", leader_epoch=4), log)
    assert finding is not None
    assert (finding.loss, finding.count, decide(finding, OnDataLoss.SKIP).start) == (Loss.TRUNCATED, 20, 60)


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
        "copied position is 10); set on.data.loss to skip or reset to continue without them"
    )


def test_topics_that_their_application_empties_are_better_left_out() -> None:
    topic = "orders-app-KSTREAM-AGGREGATE-0003-repartition"
    finding = find_loss(Bookmark(10, "x"), SourceLog(topic, 0, 25, 90, "x"))
    assert finding is not None
    error = decide(finding, OnDataLoss.FAIL).error
    assert error is not None
    assert "srm-control topics --flow <flow> --add-exclude '.*-repartition', or set on.data.loss to skip" in error
    created_again = find_loss(Bookmark(10, "x"), SourceLog(topic, 0, 0, 90, "y"))
    assert created_again is not None
    assert "--add-exclude" not in str(decide(created_again, OnDataLoss.FAIL).error)


def test_nothing_is_known_before_something_was_read() -> None:
    assert LeaderEpochs().at(0) == UNKNOWN_EPOCH
    assert LeaderEpochs(100, 7).at(99) == 7
    assert LeaderEpochs(100, 7).at(98) == UNKNOWN_EPOCH
    assert LeaderEpochs(100, 7).at(100) == UNKNOWN_EPOCH


def test_a_hole_between_two_epochs_belongs_to_neither() -> None:
    epochs = LeaderEpochs()
    epochs.add(0, 10, 1)
    epochs.add(20, 30, 3)
    assert [epochs.at(offset) for offset in (9, 10, 19, 20, 29, 30)] == [1, -1, -1, 3, 3, -1]


def test_what_is_read_again_counts_as_it_is_now() -> None:
    epochs = LeaderEpochs()
    epochs.add(0, 10, 1)
    epochs.add(10, 20, 1)
    epochs.add(20, 30, 2)
    epochs.add(15, 40, 4)
    assert [epochs.at(offset) for offset in (14, 15, 25, 39, 40)] == [1, 4, 4, 4, -1]


def test_batches_of_old_formats_have_no_epoch() -> None:
    epochs = LeaderEpochs(5, 2)
    epochs.add(5, 8, UNKNOWN_EPOCH)
    assert (epochs.at(4), epochs.at(5), epochs.at(7)) == (2, UNKNOWN_EPOCH, UNKNOWN_EPOCH)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2)), max_size=12), st.integers(0, 60))
def test_any_log_is_known_offset_by_offset(steps: list[tuple[int, int, int]], forgotten: int) -> None:
    epochs, table = LeaderEpochs(), dict[int, int]()
    at, epoch, batches = 0, 0, []
    for hole, size, grown in steps:
        first = at + hole
        epoch += grown
        if table and not grown:
            table.update(dict.fromkeys(range(at, first), epoch))
        at = first + size
        table.update(dict.fromkeys(range(first, at), epoch))
        batches.append((first, at, epoch))
    for first, after, one in batches:
        epochs.add(first, after, one)
    assert [epochs.at(offset) for offset in range(at + 2)] == [table.get(offset, -1) for offset in range(at + 2)]
    epochs.forget_before(forgotten)
    kept = range(forgotten, at + 2)
    assert [epochs.at(offset) for offset in kept] == [table.get(offset, -1) for offset in kept]
    for first, after, one in batches[len(batches) // 2 :]:
        epochs.add(first, after, one)
    assert [epochs.at(offset) for offset in kept] == [table.get(offset, -1) for offset in kept]
