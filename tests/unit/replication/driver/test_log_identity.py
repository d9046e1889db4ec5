"""Logs that were truncated and have grown again are noticed by their leader epochs, wherever they end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.log_identity import epochs_before
from tests.unit.replication.driver.simulated_cluster import Log, SimulatedSource
from tests.unit.replication.driver.simulated_flow import SimulatedFlow, copied, everything, world

T = TopicPartition("t", 0)


def regrown(there: SimulatedFlow, keep: int, end: int) -> None:
    """The log loses what it has from ``keep`` on, and grows to ``end``."""
    log = there.source.logs[T]
    log.elect(keep)
    log.records += [10_000 + number for number in range(keep, end)]


@pytest.mark.parametrize("end", [80, 99, 100, 101, 150])
@pytest.mark.parametrize("keep", [0, 60])
def test_a_log_that_was_cut_and_has_grown_again_is_lost_data(keep: int, end: int) -> None:
    there = world(100)
    there.run()
    regrown(there, keep, end)
    track = there.run().tracks[T]
    assert track.error_kind == "DataLost"
    assert track.error is not None
    assert "100" in track.error
    assert str(keep) in track.error
    assert len(copied(there)[T]) == 100

    there.run(on_data_loss=OnDataLoss.SKIP)
    assert copied(there)[T] == [*range(100), *range(10_000 + keep, 10_000 + end)]
    # That decision is remembered, and what follows is sound.
    there.source.logs[T].records.append(7)
    assert there.run().tracks[T].error is None
    assert copied(there)[T][100:] == [*range(10_000 + keep, 10_000 + end), 7]


def test_a_cut_that_is_seen_before_the_new_leader_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata from before the election do not have the new leader's epoch; the log's end shows the truncation."""
    there = world(100)
    there.run()
    regrown(there, 50, 51)
    monkeypatch.setattr(SimulatedSource, "leader_epoch", lambda source, place: 0)
    there.run(on_data_loss=OnDataLoss.SKIP)
    assert copied(there)[T] == [*range(100), 10_050]


def test_it_is_noticed_between_two_passes_of_a_long_run() -> None:
    there = world(100)
    steps = iter([lambda: regrown(there, 90, 100)])
    there.while_asleep = lambda: next(steps, lambda: None)()
    track = there.run(max_seconds=30.0).tracks[T]
    assert (track.error_kind, track.position) == ("DataLost", 100)


def test_a_new_leader_that_lost_nothing_costs_one_question() -> None:
    there = world(100, 50)
    there.run()
    for log in there.source.logs.values():
        log.elect()
    there.run(max_seconds=30.0)
    assert there.source.epoch_questions == 2
    there.source.logs[T].records.append(5)
    there.source.logs[TopicPartition("t", 1)].elect()
    there.run()
    assert copied(there) == everything(there)
    assert there.source.epoch_questions == 2 + 2


def test_offsets_without_an_epoch_are_believed() -> None:
    there = world(100)
    there.run()
    there.target.epochs.clear()
    regrown(there, 60, 150)
    assert there.run().tracks[T].error is None
    assert there.source.epoch_questions == 0


def test_a_topic_created_again_is_told_as_that() -> None:
    there = world(100)
    there.run()
    regrown(there, 0, 150)
    there.source.logs[T].topic_id = "id-2"
    error = there.run().tracks[T].error
    assert error is not None
    assert "created again" in error


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.sets(st.integers(0, 11)), st.integers(0, 20))
def test_the_epoch_before_an_offset_is_found(lengths: list[int], skipped: set[int], expired: int) -> None:
    log = Log(epochs=[])
    for epoch, length in enumerate(lengths):
        if epoch not in skipped or epoch == len(lengths) - 1:
            log.epochs.append((epoch, log.end))
            log.records += [0] * length
    log.expire(min(expired, len(log.records) - 1))
    source = SimulatedSource({TopicPartition("t", number): log for number in range(log.end - log.start)})
    offsets = {place: log.start + 1 + place[1] for place in source.logs}
    assert epochs_before(source, offsets) == {place: log.epoch_at(offset - 1) for place, offset in offsets.items()}
