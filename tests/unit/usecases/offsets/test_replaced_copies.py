"""Copies that were deleted and created again: the offset map and the checkpoints so far are of the former ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from srm_common.domain.flow import OnDataLoss, names
from srm_common.domain.moving.moves import PositionReport
from srm_common.domain.topic_id import url_safe
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets import mapped_topics
from srm_common.usecases.offsets.former_maps import drop_maps
from srm_common.usecases.offsets.resume_points import move_positions, opposite
from srm_common.usecases.offsets.sync_checkpoints import prune_segments, sync_checkpoints
from tests.unit.usecases.fakes import Sides

_COPIED = 20


@pytest.fixture
def copied(steady_sides: Sides) -> Sides:
    """A group at 10 of 20 records, each of which was copied by a run of its own: what is copied at once has the offsets
    that a backup tool would give it."""
    sides = steady_sides
    sides.set(sync_group_offsets=True, sync_group_offsets_interval_seconds=0.0)
    sides.source.create_topic("orders")
    sides.refresh()
    for number in range(_COPIED):
        sides.source.write("orders", [(b"k", b"%d" % number)])
        assert sides.run(f"r{number}").records == 1
    sides.source.commit("g", {("orders", 0): 10})
    round_of(sides)
    assert checkpoints(sides) == {"g": (10, 19)}
    return sides


def round_of(sides: Sides) -> None:
    report = sync_checkpoints(sides.clusters(), at_once=True)
    assert report.faults == ()


def checkpoints(sides: Sides) -> dict[str, tuple[int, int]]:
    found = newest_checkpoints(sides.clusters().target.reader, names.checkpoints_topic(sides.flow))
    return {one.group: (one.upstream, one.downstream) for one in found.by_place.values()}


def replace_copy(sides: Sides, *, restored: bool) -> None:
    """By others: a backup tool, which writes without transactions, or a consumer for which a broker creates it."""
    records = [(record.key, record.value) for record in sides.target.records("a.orders")]
    sides.close()
    sides.target.delete_topic("a.orders")
    sides.target.create_topic("a.orders")
    if restored:
        sides.target.write("a.orders", records)


def next_read(sides: Sides, group: str) -> bytes | None:
    """What the group reads next on the target."""
    at = sides.target.committed(group)["a.orders", 0]
    return next((record.value for record in sides.target.records("a.orders") if record.offset >= at), None)


def moved(sides: Sides, *, source_answers: bool) -> PositionReport:
    (report,) = move_positions(sides.clusters(), ["g"], source_answers=source_answers).reports
    return report


@pytest.mark.parametrize("choice", [OnDataLoss.SKIP, OnDataLoss.RESET])
@pytest.mark.parametrize("restored", [True, False], ids=["restored", "empty"])
def test_no_group_is_moved_by_the_map_of_the_former_copy(copied: Sides, restored: bool, choice: OnDataLoss) -> None:
    replace_copy(copied, restored=restored)
    copied.set(on_target_loss=choice)
    copied.refresh()
    # Before anything is copied, after it, and once the group has moved.
    round_of(copied)
    assert copied.target.committed("g") == {("a.orders", 0): 0}
    assert moved(copied, source_answers=False).applied == 0
    copied.source.commit("g", {("orders", 0): 12})
    copied.run("after")
    copied.source.write("orders", [(b"k", b"20")])
    copied.run("more")
    round_of(copied)
    last = next_read(copied, "g")
    assert last is not None
    assert int(last) <= 12 or (choice is OnDataLoss.SKIP and not restored)
    report = moved(copied, source_answers=True)
    if choice is OnDataLoss.SKIP:
        assert report.applied == 0
    else:
        # All was copied again in one chunk, behind what was restored.
        assert report.applied == (20 if restored else 0) + 12
    # What is copied from then on has exact places again.
    copied.source.commit("g", {("orders", 0): 21})
    round_of(copied)
    assert next_read(copied, "g") is None
    assert moved(copied, source_answers=True).read_again.most == 0


def test_the_map_goes_with_the_copy(copied: Sides) -> None:
    assert drop_maps(copied.clusters(), ()) == 0
    replace_copy(copied, restored=True)
    copied.refresh()
    assert len(segments_of(copied).read_all()) > 0
    copied.set(on_target_loss=OnDataLoss.SKIP)
    copied.refresh()
    assert len(segments_of(copied).read_all()) == 0
    assert drop_maps(copied.clusters(), {"orders"}) == 0


def segments_of(sides: Sides) -> SegmentLog:
    return sides.clusters().target.segment_log(names.segments_topic("a"))


def test_segments_that_are_joined_while_the_map_goes_do_not_come_back(
    copied: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The round has joined what there was: one more chunk than can stay by itself.
    for number in range(_COPIED):
        copied.source.write("orders", [(b"k", b"more %d" % number)])
        copied.run(f"more{number}")
    clusters, log = copied.clusters(), segments_of(copied)
    _, ends = log.read_new({})
    keys_since = SegmentLog.keys_since

    def late(log: SegmentLog, starts: Mapping[int, int]) -> dict[int, set[bytes]]:
        assert drop_maps(clusters, {"orders"}) > _COPIED
        monkeypatch.setattr(SegmentLog, "keys_since", keys_since)
        return keys_since(log, starts)

    monkeypatch.setattr(SegmentLog, "keys_since", late)
    pruned = prune_segments(clusters, log, names.segments_topic("a"), ends)
    assert (pruned.dropped, pruned.joined, pruned.written) == (0, 0, 0)
    assert len(segments_of(copied).read_all()) == 0


@pytest.mark.parametrize("refreshed", [True, False])
def test_a_disaster_before_anybody_has_decided_skips_nothing(copied: Sides, refreshed: bool) -> None:
    """Neither before nor after the flow's tasks have noticed."""
    copied.source.commit("g", {("orders", 0): 12})
    replace_copy(copied, restored=True)
    assert (moved(copied, source_answers=False).applied, moved(copied, source_answers=True).applied) == (0, 0)
    if refreshed:
        copied.refresh()
        copied.run("after")
    round_of(copied)
    assert checkpoints(copied) == {"g": (12, 0)}
    assert copied.target.committed("g") == {("a.orders", 0): 0}
    assert (moved(copied, source_answers=False).applied, moved(copied, source_answers=True).applied) == (0, 0)


def test_a_broker_that_still_lists_the_former_copy_changes_nothing(
    copied: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    (former,) = copied.clusters().target.admin.describe_topics(["a.orders"]).values()
    replace_copy(copied, restored=False)
    copied.set(on_target_loss=OnDataLoss.SKIP)
    copied.refresh()
    copied.source.write("orders", [(b"k", b"20")])
    copied.run("more")
    copied.source.commit("g", {("orders", 0): 21})
    round_of(copied)

    async def lags_behind(link: ClusterLink, topics: Iterable[str], patience_seconds: float) -> dict[str, str | None]:
        return dict.fromkeys(topics, url_safe(former.topic_id))

    monkeypatch.setattr(mapped_topics, "topic_ids", lags_behind)
    report = sync_checkpoints(copied.clusters(), at_once=True)
    assert (report.renewed, report.unchanged, report.untranslated) == (0, 1, ())
    assert moved(copied, source_answers=True).read_again.most == 0


def test_positions_on_a_replaced_copy_are_not_translated_back(copied: Sides) -> None:
    """They would pass over records of the original."""
    back = replace(opposite(copied.flow), groups=(".*",), reverse_checkpointing=True)
    copied.target.commit("back", {("a.orders", 0): 10})
    with FlowClusters(back) as clusters:
        sync_checkpoints(clusters, at_once=True)
        assert ("back", 10, 5) in on_originals(clusters)
    replace_copy(copied, restored=True)
    copied.target.commit("back", {("a.orders", 0): 12})
    with FlowClusters(back) as clusters:
        report = sync_checkpoints(clusters, at_once=True)
        reasons = {(one.group, one.upstream): one.reason for one in report.untranslated}
        assert "created again" in reasons["back", 12]
        assert ("back", 10, 5) in on_originals(clusters)


def on_originals(back: FlowClusters) -> set[tuple[str, int, int]]:
    found = newest_checkpoints(back.target.reader, names.checkpoints_topic(back.flow)).by_place.values()
    return {(one.group, one.upstream, one.downstream) for one in found}
