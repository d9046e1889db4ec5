"""Runs of other installations, and runs that take a flow from each other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from srm_common.domain.flow.names import StateKey
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.runs.copying import CopyRange
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import ChosenStart, SourceTopics
from srm_common.errors import FlowOwnedElsewhere
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.driver import passes as driver_passes
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.passes import Passes, PassOutcome
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.slot_count import record_slots, take_ownership
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.runs import run_journal
from srm_common.usecases.runs.replicate import _Run
from srm_common.usecases.runs.run_journal import last_run
from tests.unit.usecases.fakes import Sides

RECORD_SLOTS = "srm_common.usecases.runs.replicate.record_slots"


@pytest.fixture
def flowing(sides: Sides) -> Sides:
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"v")])
    sides.refresh()
    return sides


def test_another_installation_is_named_and_a_run_by_hand_is_not_one(flowing: Sides) -> None:
    flowing.run("1", installation="prod")
    assert flowing.run("2", installation="prod").notes == ()
    assert flowing.run("by hand").notes == ()
    (note,) = flowing.run("3", installation="test").notes
    assert "prod" in note


def test_a_run_that_was_overtaken_leaves_the_record_to_the_new_owner(
    flowing: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    flowing.run("before")
    flowing.source.write("orders", [(b"k", b"w")])
    take = Ownership.take

    def overtaken(*arguments: object, **more: object) -> Ownership:
        owner = take(*arguments, **more)  # type: ignore[arg-type]
        monkeypatch.undo()
        take(flowing.flow, 1, 1).abandon()
        return owner

    monkeypatch.setattr(Ownership, "take", overtaken)
    with pytest.raises(FlowOwnedElsewhere):
        flowing.run("late")
    record = last_run(flowing.flow)
    assert record is not None
    assert record.run_id == "before"
    assert flowing.values("a.orders") == [b"v"]


def test_a_run_that_was_overtaken_does_not_replace_where_topics_start(
    flowing: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = Passes.run
    starts = []

    def start() -> ChosenStart | None:
        with FlowState(flowing.flow) as state:
            return SourceTopics.from_json(state.read(StateKey.TOPICS)).start("orders")

    def overtaken(passes: Passes) -> None:
        monkeypatch.undo()
        flowing.set(auto_offset_reset="latest")
        flowing.run("newer")
        starts.append(start())
        go(passes)

    monkeypatch.setattr(Passes, "run", overtaken)
    with pytest.raises(FlowOwnedElsewhere, match="another run took over flow a->b"):
        flowing.run("late")
    assert starts == [start()]
    assert starts[0] is not None
    assert starts[0].where == "latest"


def test_a_run_that_was_overtaken_does_not_replace_which_start_was_applied(
    flowing: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer run would apply its own again when it is repeated."""
    go_on = _Run._between_passes
    earliest = StartPosition.parse("earliest")
    newer = iter(["newer"])

    def overtaken(run: _Run, passes: Passes, ranges: Sequence[CopyRange]) -> None:
        monkeypatch.undo()
        for run_id in newer:
            flowing.run(run_id, start=earliest)
        go_on(run, passes, ranges)

    monkeypatch.setattr(_Run, "_between_passes", overtaken)
    with pytest.raises(FlowOwnedElsewhere, match="another run took over flow a->b"):
        flowing.run("late", start=earliest)
    with FlowState(flowing.flow) as state:
        assert state.read(StateKey.START) == {"run_id": "newer", "start": "earliest"}


def test_a_run_without_news_that_was_overtaken_leaves_the_record_to_the_new_owner(
    flowing: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had nothing to copy, and so nothing that would have been refused."""
    flowing.run("before")
    go = Passes.run

    def overtaken(passes: Passes) -> None:
        monkeypatch.undo()
        go(passes)
        flowing.source.write("orders", [(b"k", b"w")])
        flowing.run("newer")

    monkeypatch.setattr(Passes, "run", overtaken)
    with pytest.raises(FlowOwnedElsewhere, match="another run took over flow a->b"):
        flowing.run("late")
    record = last_run(flowing.flow)
    assert record is not None
    assert (record.run_id, record.records) == ("newer", 1)
    assert make_report(flowing.clusters(), "newer").ok


def test_a_run_that_waits_for_records_leaves_the_record_to_the_new_owner(
    flowing: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = iter(range(3))
    go = Passes._pass

    def overtaken(run: Passes) -> PassOutcome:
        number = next(passes)
        assert number < 2, "it goes on"
        if number:
            with monkeypatch.context() as patch:
                patch.setattr(Passes, "_pass", go)
                flowing.run("newer")
        return go(run)

    monkeypatch.setattr(run_journal, "_RECORD_SECONDS", 0.0)
    monkeypatch.setattr(driver_passes, "PASS_SECONDS", 0.1)
    monkeypatch.setattr(Passes, "_pass", overtaken)
    with pytest.raises(FlowOwnedElsewhere, match="another run took over flow a->b"):
        flowing.run("late", max_seconds=3600.0)
    record = last_run(flowing.flow)
    assert record is not None
    assert (record.run_id, record.state) == ("newer", RunState.DONE)


def highest(sides: Sides) -> int:
    with FlowState(sides.flow) as state:
        return int((state.read(StateKey.SLOTS) or {}).get("highest", 0))


def test_a_run_that_comes_late_does_not_lower_the_number_of_slots(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one with more slots runs while it finds out what there is to copy."""
    sides.source.create_topic("orders", 4)
    sides.refresh()
    find = _Run._first_topics

    def late(run: _Run) -> list[CopiedTopic]:
        monkeypatch.undo()
        sides.set(tasks_max=4)
        sides.run("more")
        return find(run)

    sides.set(tasks_max=2)
    monkeypatch.setattr(_Run, "_first_topics", late)
    sides.run("late")
    assert highest(sides) == 4


def test_slots_that_were_recorded_meanwhile_are_fenced_too(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers before 3.0 do not list their ids."""
    sides.source.create_topic("orders", 4)
    sides.refresh()
    take = Ownership.take

    def late(*arguments: object, **more: object) -> Ownership:
        monkeypatch.undo()
        sides.set(tasks_max=4)
        sides.run("more")
        return take(*arguments, **more)  # type: ignore[arg-type]

    sides.set(tasks_max=2)
    monkeypatch.setattr(Ownership, "take", late)

    async def nothing(owner: Ownership, deadline: float) -> set[str]:
        return set()

    with monkeypatch.context() as patch:
        clusters = sides.clusters()
        patch.setattr(Ownership, "_listed", nothing)
        owner = take_ownership(clusters, 2, 2)
        assert len(owner.all_identities) == 4
        owner.abandon()


def test_a_run_that_was_overtaken_does_not_record_its_number_of_slots(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides.source.create_topic("orders", 4)
    sides.refresh()

    def overtaken(clusters: FlowClusters, owner: Ownership, slots: int) -> None:
        monkeypatch.undo()
        with monkeypatch.context() as patch:
            # As one that is about to record a higher one.
            patch.setattr(RECORD_SLOTS, lambda *_: None)
            sides.run("newer")
        record_slots(clusters, owner, slots)

    sides.set(tasks_max=2)
    monkeypatch.setattr(RECORD_SLOTS, overtaken)
    with pytest.raises(FlowOwnedElsewhere, match="another run took over flow a->b"):
        sides.run("late")
    assert highest(sides) == 0


def test_a_run_records_its_slots_once_and_more_of_them_again(sides: Sides) -> None:
    sides.source.create_topic("orders", 4)
    sides.refresh()
    seen = []
    for slots in (2, 1, 3):
        sides.set(tasks_max=slots)
        sides.source.write("orders", [(b"k", b"v")])
        assert sides.run(f"with-{slots}").state is RunState.DONE
        seen.append(highest(sides))
    assert seen == [2, 2, 3]
    assert len(sides.values("a.orders")) == 3
