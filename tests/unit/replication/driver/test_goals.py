"""Runs without a time limit, which are over when each partition has reached the end that was first listed: its goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from srm_common.domain.runs.copying import CopyJob, RangeResult, SlotResult, SlotTask
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.passes import Passes
from tests.unit.replication.driver.simulated_flow import SimulatedFlow, copied, world


class TestLongBacklog:
    """One partition of a run without a time limit keeps it busy for hours."""

    BACKLOG, SHORT = TopicPartition("t", 0), TopicPartition("t", 1)

    def run(self, between: Callable[[SimulatedFlow, Passes], None]) -> tuple[SimulatedFlow, Passes]:
        """A run of a hundred passes of a minute each; ``between`` is called after each."""
        there = world(400, 5, slots=1)
        there.slots.fate = lambda slot: "late"

        def slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            there.now += job.pass_seconds
            return there.slots(job, tasks)

        passes = there.passes(watch=lambda passes, ranges: None if ranges else between(there, passes))
        passes.runner = slots
        there.target.refence()
        passes._identities = [*there.target.identities]
        passes.run()
        assert passes.count == 100
        assert copied(there)[self.BACKLOG] == there.source.logs[self.BACKLOG].records
        return there, passes

    def test_partitions_that_reached_their_goal_are_copied_on(self) -> None:
        there, _ = self.run(lambda there, passes: there.source.logs[self.SHORT].records.append(7))
        # One more was written after the last pass.
        assert copied(there)[self.SHORT] == there.source.logs[self.SHORT].records[:-1]

    def test_one_that_fails_behind_its_goal_is_tried_again(self) -> None:
        def fail_once(there: SimulatedFlow, passes: Passes) -> None:
            there.source.logs[self.SHORT].records.append(7)
            if passes.count == 4:
                passes.tracks[self.SHORT].fail("no leader", "PartitionError", there.now)

        there, passes = self.run(fail_once)
        assert passes.tracks[self.SHORT].error is None
        assert copied(there)[self.SHORT] == there.source.logs[self.SHORT].records[:-1]

    def test_one_that_is_deleted_behind_its_goal_is_no_failure(self) -> None:
        def delete(there: SimulatedFlow, passes: Passes) -> None:
            if passes.count == 4:
                del there.source.logs[self.SHORT]

        _, passes = self.run(delete)
        assert passes.tracks[self.SHORT].error is None


def test_producers_do_not_keep_a_run_alive_that_gets_nowhere() -> None:
    """What is copied behind a partition's goal counts for nothing while another one's slot reports nothing."""
    there = world(8, 8, slots=2)
    live, stuck = TopicPartition("t", 0), TopicPartition("t", 1)

    def run_slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        assert len(there.slots.passes) < 20
        there.source.logs[live].records.append(len(there.source.logs[live].records))
        alive = [replace(task, ranges=tuple(one for one in task.ranges if one.partition == 0)) for task in tasks]
        results = there.slots(job, [task for task in alive if task.ranges])
        return [result for result in results if alive[result.slot] == tasks[result.slot]]

    passes = there.passes()
    there.target.refence()
    passes._identities = [*there.target.identities]
    passes.runner = run_slots
    passes.run()
    error = passes.tracks[stuck].error
    assert error is not None
    assert error.startswith("given up after 5 passes without progress: slot ")
    assert passes.tracks[live].error is None
    assert len(there.target.records[live]) > 8


def test_a_fault_behind_the_goal_is_a_note() -> None:
    """The run has done what it is for, and the next one tries again."""
    there = world(4, 80, slots=2)
    short = TopicPartition("t", 0)
    there.target.chunk = 8
    there.slots.fate = lambda slot: "late"

    def run_slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        there.source.logs[short].records.append(0)
        return [
            replace(
                result,
                ranges=tuple(failed(one) if one.start >= 4 and one.partition == 0 else one for one in result.ranges),
            )
            for result in there.slots(job, tasks)
        ]

    def failed(one: RangeResult) -> RangeResult:
        return replace(one, error="it went wrong", error_kind="PartitionError")

    passes = there.passes()
    there.target.refence()
    passes._identities = [*there.target.identities]
    passes.runner = run_slots
    passes.run()
    assert [track.error for track in passes.tracks.values()] == [None, None]
    assert f"{short}: it went wrong; the run had copied what it was for" in there.notes
