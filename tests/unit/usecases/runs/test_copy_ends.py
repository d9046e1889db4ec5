"""What the target has lost of a copy is noticed by the next run, however the one before ended; what it has not lost is
not copied again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.usecases.runs.copy_ends import CopyEnds
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.runs.run_journal import RunJournal
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.slot_worker import here
from tests.unit.usecases.fakes import Sides

COPY = "a.orders"


def written(sides: Sides, first: int, count: int) -> list[bytes | None]:
    values = [b"%d" % number for number in range(first, first + count)]
    sides.source.write("orders", [(b"k", value) for value in values])
    return [*values]


@pytest.fixture
def copied(sides: Sides) -> Sides:
    """Five records that were copied by a run each, so that the copy has five markers between them."""
    sides.source.create_topic("orders")
    sides.refresh()
    for number in range(5):
        written(sides, number, 1)
        assert sides.run(f"run {number}").records == 1
    return sides


def run_that_fails(sides: Sides, run_id: str) -> None:
    """It copies and commits, and then cannot go on."""

    def dying(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        here(job, tasks)
        raise UnreachableCluster("the target is gone")

    with pytest.raises(UnreachableCluster):
        replicate(sides.clusters(), RunOptions(run_id), dying)


def run_that_is_killed(sides: Sides, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies and commits, and leaves no record at all."""
    with monkeypatch.context() as patched:
        patched.setattr(RunJournal, "_write", lambda *_: None)
        run_that_fails(sides, run_id)


def lost(record: RunRecord) -> bool:
    return record.state is RunState.FAILED and "the target lost records that were copied" in str(record)


@pytest.mark.parametrize("killed", [False, True])
def test_a_cut_is_noticed_after_a_run_that_did_not_end_well(
    copied: Sides, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(copied, 5, 10)
    if killed:
        run_that_is_killed(copied, "dying", monkeypatch)
    else:
        run_that_fails(copied, "dying")
    copied.target.move_leader(COPY, keep=12)
    written(copied, 15, 5)
    before = copied.values(COPY)
    assert len(before) == 5, "the last chunk is gone as a whole"
    assert lost(copied.run("next"))
    assert lost(copied.run("the one after it"))
    copied.set(on_target_loss=OnDataLoss.SKIP)
    assert copied.run("skipping").records == 5
    copied.set(on_target_loss=OnDataLoss.FAIL)
    assert copied.run("good").state is RunState.DONE


def test_what_is_decided_is_not_found_again_where_that_run_dies(copied: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    copied.target.move_leader(COPY, keep=6)
    copied.set(on_target_loss=OnDataLoss.SKIP)
    written(copied, 5, 2)
    run_that_fails(copied, "skipping")
    copied.set(on_target_loss=OnDataLoss.RESET)
    record = copied.run("next")
    assert (record.state, record.records) == (RunState.DONE, 0)


def test_a_cut_is_noticed_when_a_topic_is_selected_again(copied: Sides) -> None:
    copied.source.create_topic("orders2")
    copied.set(topics=("orders2",))
    copied.refresh()
    assert copied.run("without it").state is RunState.DONE
    copied.target.move_leader(COPY, keep=4)
    copied.set(topics=("orders.*",))
    copied.refresh()
    assert lost(copied.run("with it"))


@pytest.mark.parametrize("choice", [OnDataLoss.RESET, OnDataLoss.FAIL])
@pytest.mark.parametrize("killed", [False, True])
def test_a_copy_that_was_created_again_is_not_compared_with_the_former_one(
    copied: Sides, choice: OnDataLoss, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is shorter, since it has fewer markers."""
    values = copied.values(COPY)
    copied.set(on_target_loss=choice)
    copied.target.delete_topic(COPY)
    refresh_topics(copied.clusters(), at_once=True, restore={"orders": OnDataLoss.RESET})
    if killed:
        run_that_is_killed(copied, "dying", monkeypatch)
    else:
        run_that_fails(copied, "dying")
    assert copied.values(COPY) == values
    record = copied.run("next")
    assert (record.state, record.records) == (RunState.DONE, 0)
    assert copied.values(COPY) == values


@pytest.mark.parametrize("between", [False, True])
def test_a_copy_that_is_resumed_goes_on(copied: Sides, between: bool) -> None:
    copied.target.delete_topic(COPY)
    more = written(copied, 5, 2)
    if between:
        assert copied.run("between").state is RunState.FAILED
    refresh_topics(copied.clusters(), at_once=True, restore={"orders": OnDataLoss.SKIP})
    for run_id in ("resumed", "again"):
        assert copied.run(run_id).state is RunState.DONE
    assert copied.values(COPY) == more


def test_a_run_of_few_topics_forgets_none_of_the_ids_that_the_record_needs() -> None:
    topics = [f"a.{number}" for number in range(1_500)]
    before = {
        TopicPartition(topic[2:], 0): PartitionRecord(topic[2:], topic, 0, records=0, bytes=0) for topic in topics
    }
    others = [f"a.gone{number}" for number in range(1_500)]
    ids = CopyEnds(before, dict.fromkeys([*topics, *others], "id")).topic_ids
    assert ids.keys() >= set(topics)
    assert [topic for topic in ids if topic not in topics] == others[500:]
