"""Groups with positions in partitions of which nothing was copied: they have nothing to read, or not yet."""

from __future__ import annotations

import pytest

from srm_common.domain.offsets.translation import Evidence, NotReplicatedYet, Translated, Translation, Unmapped
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.log.log_windows import LogWindows
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.unit.usecases.fakes import Sides

AT_ITS_START = Translated(0, exact=True, by=Evidence.TARGET)


def translated(sides: Sides, topic: str, position: int, partition: int = 0) -> Translation:
    with ExactTranslation(sides.clusters()) as exact:
        (found,) = exact.translate([(topic, partition, position)]).values()
        return found


@pytest.fixture
def synced(sides: Sides) -> Sides:
    """A flow that syncs groups, with the topics ``orders``, which is empty, and ``orders.expired``, which is at 10."""
    sides.set(sync_group_offsets=True, sync_group_offsets_interval_seconds=0.0)
    sides.source.create_topic("orders", 2)
    sides.source.create_topic("orders.expired")
    sides.source.write("orders.expired", [(None, b"%d" % number) for number in range(10)])
    sides.source.delete_records("orders.expired", 10)
    sides.refresh()
    sides.run()
    return sides


def test_a_group_that_waits_at_the_start_does_so_on_the_target(synced: Sides) -> None:
    """Else a consumer that starts at the end there by default would skip the first records."""
    synced.source.commit("g", {("orders", 0): 0, ("orders.expired", 0): 10})
    report = sync_checkpoints(synced.clusters(), at_once=True)
    assert (report.untranslated, report.checkpoints) == ((), 2)
    assert synced.target.committed("g") == {("a.orders", 0): 0, ("a.orders.expired", 0): 0}
    assert sync_checkpoints(synced.clusters(), at_once=True).unchanged == 2
    # What comes is before the group, and the group goes on with what is copied.
    synced.source.write("orders", [(None, b"1"), (None, b"2")])
    synced.run("more")
    sync_checkpoints(synced.clusters(), at_once=True)
    assert synced.target.committed("g")["a.orders", 0] == 0
    synced.source.commit("g", {("orders", 0): 2})
    sync_checkpoints(synced.clusters(), at_once=True)
    assert synced.target.committed("g")["a.orders", 0] == 2


def test_what_is_not_copied_yet_may_be_read_again(synced: Sides) -> None:
    synced.source.write("orders", [(None, b"%d" % number) for number in range(10)])
    synced.source.delete_records("orders", 3)
    assert [translated(synced, "orders", position) for position in (0, 3)] == [AT_ITS_START, AT_ITS_START]
    assert translated(synced, "orders", 7) == NotReplicatedYet(4, 0)
    assert translated(synced, "orders", 90) == NotReplicatedYet(7, 0)
    synced.run("more")
    assert translated(synced, "orders", 7) == Translated(4, exact=True)


def test_a_source_that_is_silent_says_nothing_of_what_may_be_read_again(
    synced: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LogWindows.starts

    def starts(windows: LogWindows, places: set[TopicPartition]) -> dict[TopicPartition, int]:
        if ("orders", 0) in places:
            raise UnreachableCluster("cluster 'a' does not respond")
        return whole(windows, places)

    monkeypatch.setattr(LogWindows, "starts", starts)
    assert translated(synced, "orders", 7) == NotReplicatedYet(7, 0)
    assert translated(synced, "orders", 0) == AT_ITS_START


def test_a_copy_that_is_missing_or_has_records_of_others_tells_nothing(synced: Sides) -> None:
    synced.source.grow_topic("orders", 3)
    synced.target.write("a.orders", [(None, b"by others")], partition=1)
    for partition in (1, 2):
        assert isinstance(translated(synced, "orders", 0, partition), Unmapped)
    assert isinstance(translated(synced, "payments", 0), Unmapped)
    assert translated(synced, "orders", 0) == AT_ITS_START
