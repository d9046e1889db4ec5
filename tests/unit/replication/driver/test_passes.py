"""The pass loop over a simulated pair of clusters: whatever happens to slots, each record arrives once, in
order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.flow.start_position import StartPosition, StartRules, parse_topic_starts
from srm_common.domain.runs.copying import CopyJob, ProducerIdentity, SlotResult, SlotTask
from srm_common.domain.runs.data_loss import CutCopy
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import StateUnavailable, UnreachableCluster
from srm_common.replication.driver.passes import Passes
from srm_common.replication.driver.starting_points import StartingPoints
from tests.unit.replication.driver.simulated_cluster import JOB, Log, SimulatedSlots, SimulatedSource, SimulatedTarget


class SimulatedFlow:
    """A flow between simulated clusters, over several runs; time passes only by sleeping."""

    def __init__(self, logs: dict[TopicPartition, Log], slots: int = 3) -> None:
        self.source = SimulatedSource(logs)
        self.target = SimulatedTarget(self.source, slots)
        self.slots = SimulatedSlots(self.target)
        self.memory = SourceTopics()
        self.notes: list[str] = []
        self.now = 0.0
        self.while_asleep: Callable[[], Any] = lambda: None

    def passes(self, **changes: Any) -> Passes:
        points = StartingPoints(
            source=self.source,
            memory=self.memory,
            read_committed=self.target.read_offsets,
            on_data_loss=changes.pop("on_data_loss", OnDataLoss.FAIL),
            rules=StartRules(
                parse_topic_starts(changes.pop("start_positions", "")), changes.pop("auto_offset_reset", "earliest")
            ),
            opposite_ends=changes.pop("opposite_ends", lambda places: {}),
            note=self.notes.append,
            now_ms=lambda: 1000 + int(self.now),
            override=(start := changes.pop("start", StartPosition())),
            overridden=set(self.source.logs) if start != StartPosition() else set(),
            last_ends=changes.pop("last_ends", {}),
            cut_copies=changes.pop("cut_copies", {}),
            on_target_loss=changes.pop("on_target_loss", OnDataLoss.FAIL),
        )
        return Passes(
            job=JOB,
            runner=self.slots,
            points=points,
            topics=self.topics,
            remember=self.remember,
            owner=self.target,
            slots_max=self.target.slots,
            record_bytes={"t": 1e7},
            clock=lambda: self.now,
            wall_clock=lambda: 1000 + self.now,
            sleep=self.sleep,
            **changes,
        )

    def run(self, **changes: Any) -> Passes:
        passes = self.passes(**changes)
        self.target.refence()
        passes._identities = [*self.target.identities]
        passes.run()
        return passes

    def topics(self) -> Iterable[CopiedTopic]:
        for topic in sorted({topic for topic, _ in self.source.logs}):
            logs = {place.partition: log for place, log in self.source.logs.items() if place.topic == topic}
            yield CopiedTopic(topic, f"a.{topic}", 1 + max(logs), logs[max(logs)].topic_id)

    def remember(self, memory: SourceTopics, identity: ProducerIdentity | None) -> ProducerIdentity | None:
        self.memory = SourceTopics.from_json(memory.to_json())
        return None if self.slots.v1 else identity

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.01)
        self.while_asleep()


def world(*lengths: int, **options: Any) -> SimulatedFlow:
    return SimulatedFlow(
        {TopicPartition("t", p): Log(records=[1000 * p + n for n in range(n)]) for p, n in enumerate(lengths)},
        **options,
    )


def copied(world: SimulatedFlow) -> dict[TopicPartition, list[int]]:
    return {place: records for place, records in sorted(world.target.records.items()) if records}


def everything(world: SimulatedFlow) -> dict[TopicPartition, list[int]]:
    return {place: log.records for place, log in sorted(world.source.logs.items()) if log.records}


FATES = ("", "part", "fenced", "lost", "mute", "late")


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    fates=st.lists(st.sampled_from(FATES), max_size=12),
    slots=st.integers(1, 4),
    v1=st.booleans(),
)
def test_each_record_arrives_once_and_in_order_whatever_happens_to_slots(
    lengths: list[int], fates: list[str], slots: int, v1: bool
) -> None:
    there = world(*lengths, slots=slots)
    coming = iter(fates)
    there.slots.fate = lambda slot: next(coming, "")
    there.slots.v1 = v1
    passes = there.run()
    if not any(track.error for track in passes.tracks.values()):
        assert copied(there) == everything(there)
    # Whatever was given up in this run, the next one brings it home.
    there.run()
    assert copied(there) == everything(there)


@pytest.mark.parametrize("fate", ["fenced", "lost", "mute"])
def test_after_an_uncertain_pass_all_slots_are_fenced_before_anything_is_read_or_copied(fate: str) -> None:
    """A slot that did not report may still be alive, and commit."""
    there = world(8, 8, slots=2)
    coming = iter([fate])
    order: list[str] = []

    def fate_of(slot: int) -> str:
        if slot == 0:
            order.append("pass")
        return next(coming, "")

    def noting(what: str, work: Callable[[], Any]) -> Callable[[], Any]:
        def noted() -> Any:
            order.append(what)
            return work()

        return noted

    there.slots.fate = fate_of
    there.target.refence = noting("fence", there.target.refence)  # type: ignore[method-assign]
    there.target.read_offsets = noting("read", there.target.read_offsets)  # type: ignore[method-assign]
    there.run()
    first = order.index("pass")
    assert order[first + 1 : first + 4] == ["fence", "read", "pass"]


@given(st.lists(st.sampled_from((*FATES, "error")), max_size=12), st.integers(0, 40), st.booleans())
@example(["fenced"] * 3 + ["error"] * 4 + ["part", "error", "mute", "mute"], 24, True)
def test_a_run_with_time_follows_what_is_written_meanwhile(fates: list[str], more: int, v1: bool) -> None:
    there = world(5, 0, 9)
    coming = iter(fates)
    there.slots.fate = lambda slot: next(coming, "")
    there.slots.v1 = v1
    written = iter(range(more))

    def write() -> None:
        number = next(written, None)
        if number is not None:
            there.source.logs[TopicPartition("t", number % 3)].records.append(5000 + number)

    there.while_asleep = write
    there.run(max_seconds=400.0)
    # Faults that are still to come would fail the last run, too.
    there.slots.fate = lambda slot: ""
    there.run()
    assert copied(there) == everything(there)


def test_a_run_with_time_is_over_when_there_is_nothing_left_to_wait_for() -> None:
    """Rounded down, the sum of start and limit may lie less than the limit after the start."""
    there = world(3)
    there.now, limit = 1000.1, 30.0
    assert (there.now + limit) - there.now < limit
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        assert seconds > 0, "it would go round until the clock shows another time"
        there.now += seconds

    there.sleep = sleep  # type: ignore[method-assign]
    there.run(max_seconds=limit)
    assert waits
    assert there.now == 1000.1 + limit


def test_nothing_new_starts_nothing() -> None:
    there = world(10, 10)
    there.run()
    assert len(there.slots.passes) == 1
    before = there.source.listings
    passes = there.run()
    assert len(there.slots.passes) == 1
    assert passes.count == 0
    # The ends are all that is asked.
    assert there.source.listings == before + 1


def test_identities_of_one_pass_serve_the_next() -> None:
    there = world(4, 4)
    there.while_asleep = lambda: there.source.logs[TopicPartition("t", 0)].records.append(7)
    there.run(max_seconds=3.0)
    assert len(there.slots.passes) > 2
    assert there.target.fences == 1
    there.slots.v1 = True
    there.slots.passes.clear()
    there.target.fences = 0
    there.run(max_seconds=3.0)
    assert there.target.fences == len(there.slots.passes) - 1 + 1


def test_a_pass_that_took_long_enough_is_followed_by_another() -> None:
    there = world(40, slots=1)
    there.slots.fate = lambda slot: "late"
    passes = there.run()
    assert passes.count == 10
    assert there.now == 0
    assert copied(there) == everything(there)


def test_slots_are_told_how_long_they_may_take() -> None:
    there = world(1)
    told: list[float] = []

    def slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        told.append(job.pass_seconds)
        there.now += 15
        there.source.logs[TopicPartition("t", 0)].records.append(1)
        return there.slots(job, tasks)

    passes = there.passes(max_seconds=100.0)
    passes.runner = slots
    passes.run()
    assert told == [30, 30, 30, 30, 30, 25, 10]


def test_an_at_least_once_flow_has_no_identities() -> None:
    there = world(4)
    seen = []
    there.target.commit = lambda slot, identity, *rest: not seen.append(identity)  # type: ignore[method-assign, func-returns-value]
    passes = there.passes()
    passes.owner = None
    passes.run()
    assert seen == [None]
    assert passes.tracks[TopicPartition("t", 0)].position == 4


def test_a_slot_that_never_gets_anywhere_is_given_up_with_the_reason() -> None:
    there = world(4)
    there.target.chunk = 0
    there.slots.fate = lambda slot: "fenced"
    passes = there.run()
    track = passes.tracks[TopicPartition("t", 0)]
    assert track.error == "given up after 5 passes without progress: a newer owner"
    assert len(there.slots.passes) == 5


def test_one_partition_fails_and_the_others_go_on() -> None:
    there = world(8, 8, slots=2)
    there.slots.fate = lambda slot: "error" if slot == 0 else ""
    passes = there.run()
    errors = {place: track.error for place, track in passes.tracks.items()}
    assert sorted(errors.values(), key=str) == [None, "it went wrong"]
    assert len(there.slots.passes) == 1


class TestLostData:
    def copied_then(self, change: Callable[[Log], None], **options: Any) -> tuple[SimulatedFlow, Passes]:
        there = world(10, 3)
        there.run()
        change(there.source.logs[TopicPartition("t", 0)])
        there.source.logs[TopicPartition("t", 1)].records.append(4)
        return there, there.run(**options)

    @staticmethod
    def overrun(log: Log) -> None:
        log.records += range(20, 30)
        log.expire(15)

    def test_fail_stops_that_partition_with_the_count(self) -> None:
        there, passes = self.copied_then(self.overrun)
        lost, sound = passes.tracks[TopicPartition("t", 0)], passes.tracks[TopicPartition("t", 1)]
        assert lost.error is not None
        assert "5 offsets were deleted" in lost.error
        assert lost.lost_records == 5
        assert sound.error is None
        assert there.target.offsets == {("t", 0): 10, ("t", 1): 4}
        # It stays failed until somebody decides.
        assert there.run().tracks[TopicPartition("t", 0)].error is not None

    @pytest.mark.parametrize("choice", [OnDataLoss.SKIP, OnDataLoss.RESET])
    def test_skip_and_reset_go_on_with_what_is_left(self, choice: OnDataLoss) -> None:
        there, passes = self.copied_then(self.overrun, on_data_loss=choice)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert passes.tracks[TopicPartition("t", 0)].lost_records == 5
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(25, 30)]
        assert there.run().tracks[TopicPartition("t", 0)].lost_records == 0

    def test_a_topic_created_again_is_noticed_though_its_log_is_longer_than_the_former(self) -> None:
        def again(log: Log) -> None:
            log.topic_id, log.records = "id-2", list(range(100, 150))

        there = world(10, 3)
        there.run()
        for log in there.source.logs.values():
            again(log)
        passes = there.run()
        assert [track.error is None for track in passes.tracks.values()] == [False, False]
        assert "created again" in str(passes.tracks[TopicPartition("t", 0)].error)
        assert there.run().tracks[TopicPartition("t", 1)].error is not None
        there.run(on_data_loss=OnDataLoss.SKIP)
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 150)]
        there.run()
        assert there.target.records[TopicPartition("t", 1)] == [1000, 1001, 1002, *range(100, 150)]

    @pytest.mark.parametrize("choice", [OnDataLoss.SKIP, OnDataLoss.RESET])
    def test_a_topic_created_again_is_noticed_though_its_logs_are_as_long_as_the_former_ones(
        self, choice: OnDataLoss
    ) -> None:
        there = world(10, 3)
        there.run()
        for log, first in zip(there.source.logs.values(), (100, 200), strict=True):
            log.topic_id, log.records = "id-2", list(range(first, first + len(log.records)))
        assert all("created again" in str(track.error) for track in there.run().tracks.values())
        assert not any(track.error for track in there.run(on_data_loss=choice).tracks.values())
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 110)]
        assert there.target.records[TopicPartition("t", 1)] == [1000, 1001, 1002, *range(200, 203)]

    def test_a_listing_that_is_older_than_the_decision_changes_nothing(self) -> None:
        """As of a broker that has not heard of the new topic yet."""
        there = world(8)
        there.run()
        log = there.source.logs[TopicPartition("t", 0)]
        log.topic_id, log.records = "id-2", list(range(100, 150))
        there.run(on_data_loss=OnDataLoss.SKIP)
        log.topic_id = "id-1"
        log.records.append(150)
        there.run(on_data_loss=OnDataLoss.SKIP)
        assert there.target.records[TopicPartition("t", 0)] == [*range(8), *range(100, 151)]
        assert there.memory.topic_id("t") == "id-2"

    def test_nothing_is_decided_about_a_topic_created_again_while_its_partitions_cannot_be_placed(self) -> None:
        there = world(8, 8)
        there.run()
        for log in there.source.logs.values():
            log.topic_id, log.records = "id-2", list(range(100, 150))
        starts = there.source.starts
        there.source.starts = lambda partitions: ({}, dict.fromkeys(partitions, "no answer"))  # type: ignore[method-assign]
        there.run(on_data_loss=OnDataLoss.FAIL, patience_seconds=1.0)
        assert there.memory.topic_id("t") == "id-1"
        there.source.starts = starts  # type: ignore[method-assign]
        assert all("created again" in str(track.error) for track in there.run().tracks.values())

    def test_partitions_that_rest_start_over_in_a_topic_that_was_created_again(self) -> None:
        """By then the id of the new one is known, and their logs may have more than they have copied."""
        there = world(8, 8, slots=2)
        there.slots.fate = lambda slot: "error" if slot == 1 and len(there.slots.passes) == 1 else ""
        logs = there.source.logs.values()

        def create_again() -> None:
            for log, first in zip(logs, (100, 200), strict=True):
                if log.topic_id != "id-2":
                    log.topic_id, log.records = "id-2", list(range(first, first + 50))

        there.while_asleep = create_again
        there.run(on_data_loss=OnDataLoss.SKIP, max_seconds=20.0)
        assert there.target.records[TopicPartition("t", 0)] == [*range(8), *range(100, 150)]
        assert there.target.records[TopicPartition("t", 1)] == [*range(1000, 1004), *range(200, 250)]
        assert any("t-1: its topic was deleted and created again" in note for note in there.notes)

    def test_a_decision_holds_over_a_crash_before_its_first_commit(self) -> None:
        there = world(10)
        there.run()
        log = there.source.logs[TopicPartition("t", 0)]
        log.topic_id, log.records = "id-2", list(range(100, 120))
        there.target.chunk = 0
        there.slots.fate = lambda slot: "fenced"
        there.run(on_data_loss=OnDataLoss.RESET)
        there.target.chunk = 4
        there.slots.fate = lambda slot: ""
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 120)]

    def test_a_truncated_log(self) -> None:
        def cut(log: Log) -> None:
            del log.records[6:]

        _, passes = self.copied_then(cut)
        assert "ends at offset 6, 4 offsets before" in str(passes.tracks[TopicPartition("t", 0)].error)
        there, passes = self.copied_then(cut, on_data_loss=OnDataLoss.SKIP)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        there.source.logs[TopicPartition("t", 0)].records.append(77)
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), 77]
        there, passes = self.copied_then(cut, on_data_loss=OnDataLoss.RESET)
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(6)]

    def test_an_open_transaction_is_not_a_truncation(self) -> None:
        def open_transaction(log: Log) -> None:
            log.unstable = 4

        _, passes = self.copied_then(open_transaction)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert passes.tracks[TopicPartition("t", 0)].lost_records == 0

    def test_lost_while_the_run_goes_on(self) -> None:
        there = world(10)

        def overrun() -> None:
            there.while_asleep = lambda: None
            log = there.source.logs[TopicPartition("t", 0)]
            log.topic_id, log.records = "id-2", list(range(100, 150))

        there.while_asleep = overrun
        there.run(max_seconds=2.0, on_data_loss=OnDataLoss.RESET)
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 150)]


class TestStart:
    def test_earliest_copies_again_but_not_in_a_second_attempt(self) -> None:
        there = world(10)
        there.run()
        there.run(start=StartPosition.parse("earliest"))
        assert there.target.records[TopicPartition("t", 0)] == [*range(10)] * 2
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10)] * 2

    def test_latest_is_kept_until_something_is_copied(self) -> None:
        there = world(10)
        there.run(auto_offset_reset="latest")
        assert there.target.records == {}
        there.source.logs[TopicPartition("t", 0)].records += [50, 51]
        there.run(auto_offset_reset="latest")
        assert there.target.records[TopicPartition("t", 0)] == [50, 51]

    def test_latest_for_one_run_skips_and_stays_skipped(self) -> None:
        there = world(10)
        there.run()
        there.source.logs[TopicPartition("t", 0)].records += [50, 51]
        there.run(start=StartPosition.parse("latest"))
        there.source.logs[TopicPartition("t", 0)].records += [60]
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), 60]

    def test_timestamp(self) -> None:
        there = world(10, 3)
        there.run(start=StartPosition.parse("timestamp:7"))
        assert there.target.records == {("t", 0): [7, 8, 9], ("t", 1): [1000, 1001, 1002]}


class TestSource:
    def test_a_source_that_stays_silent_ends_the_run(self) -> None:
        there = world(3)
        there.source.down = True
        with pytest.raises(UnreachableCluster, match="has not responded for 60 s"):
            there.run()
        assert 60 <= there.now < 70

    def test_a_source_that_comes_back_is_enough(self) -> None:
        there = world(3)
        there.source.down = True

        def mend() -> None:
            there.source.down = there.now < 30

        there.while_asleep = mend
        there.run()
        assert copied(there) == everything(there)

    def test_a_topic_deleted_during_the_run_fails_its_partitions_only(self) -> None:
        there = world(3)
        there.source.logs[TopicPartition("u", 0)] = Log(records=[1, 2])

        def delete() -> None:
            there.source.logs.pop(TopicPartition("u", 0), None)
            there.source.logs[TopicPartition("t", 0)].records.append(9)

        there.while_asleep = delete
        passes = there.run(max_seconds=9.0)
        assert "topic u was deleted" in str(passes.tracks[TopicPartition("u", 0)].error)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert passes.tracks[TopicPartition("t", 0)].lag == 0

    def test_a_topic_that_one_listing_lacks_is_copied_on(self) -> None:
        there = world(3)
        there.source.logs[TopicPartition("u", 0)] = log = Log(records=[1, 2])
        whole, listings = there.topics, 0

        def incomplete() -> Iterable[CopiedTopic]:
            nonlocal listings
            listings += 1
            return [topic for topic in whole() if listings != 2 or topic.upstream != "u"]

        there.topics = incomplete  # type: ignore[method-assign]
        there.while_asleep = lambda: log.records.append(3)
        passes = there.run(max_seconds=60.0)
        there.while_asleep = lambda: None
        assert listings > 2
        assert passes.tracks[TopicPartition("u", 0)].error is None
        there.run()
        assert copied(there) == everything(there)

    def test_a_mapping_that_fails_keeps_the_one_before(self) -> None:
        there = world(3)
        whole, listings = there.topics, 0

        def fails() -> Iterable[CopiedTopic]:
            nonlocal listings
            listings += 1
            if listings == 2:
                raise UnreachableCluster("cluster a is not reachable")
            return whole()

        there.topics = fails  # type: ignore[method-assign]
        there.while_asleep = lambda: there.source.logs[TopicPartition("t", 0)].records.append(7)
        passes = there.run(max_seconds=70.0)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert any("cluster a is not reachable" in note for note in there.notes)
        assert len(there.target.records[TopicPartition("t", 0)]) > 100

    def test_a_first_mapping_that_fails_ends_the_run(self) -> None:
        there = world(3)

        def fails() -> Iterable[CopiedTopic]:
            raise UnreachableCluster("cluster a is not reachable")

        there.topics = fails  # type: ignore[method-assign]
        with pytest.raises(UnreachableCluster):
            there.run(max_seconds=70.0)

    def test_new_partitions_are_found_by_a_long_run(self) -> None:
        there = world(3)

        def grow() -> None:
            there.source.logs.setdefault(TopicPartition("t", 1), Log(records=[8]))

        there.while_asleep = grow
        there.run(max_seconds=60.0)
        assert copied(there) == everything(there)


class TestTailing:
    def test_all_partitions_take_part_once_there_is_anything_to_copy(self) -> None:
        there = world(3, 0, 0)
        passes = there.run(max_seconds=3.0)
        assert passes.count == 1
        (tasks,) = there.slots.passes
        assert sorted(copy_range.partition for task in tasks for copy_range in task.ranges) == [0, 1, 2]

    def test_nothing_to_copy_starts_nothing(self) -> None:
        there = world(0, 0)
        assert there.run(max_seconds=30.0).count == 0

    def test_slots_are_told_until_when_they_go_on(self) -> None:
        there = world(1)
        told: list[float] = []

        def slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            told.append(job.tail_until - 1000)
            there.now = told[-1] + 0.5
            there.source.logs[TopicPartition("t", 0)].records.append(1)
            return there.slots(job, tasks)

        passes = there.passes(max_seconds=100.0)
        passes.runner = slots
        passes.run()
        assert told == [30.0, 60.5, 91.0, 100.0]

    def test_a_run_of_one_pass_does_not_tail(self) -> None:
        there = world(1)
        passes = there.passes()
        passes.runner = lambda job, tasks: [] if job.tail_until else there.slots(job, tasks)
        passes.run()
        assert copied(there) == everything(there)

    def test_who_rests_after_a_fault_waits_for_a_short_pass_only(self) -> None:
        there = world(4, 4, slots=1)
        told: list[float] = []
        fates = iter(["error"])
        there.slots.fate = lambda slot: next(fates, "")

        def slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            told.append(job.pass_seconds)
            there.source.logs[TopicPartition("t", 1)].records.append(1)
            there.now += 1
            return there.slots(job, tasks)

        there.source.logs[TopicPartition("t", 0)].records += [1] * 10
        passes = there.passes(max_seconds=40.0)
        passes.runner = slots
        passes.run()
        assert told[:2] == [30.0, 5.0]


#: The flow stood at 5 when the copy was whole.
CUT = {("t", 0): CutCopy("a.t", 0, position=5, before=6, now=2)}


class TestCutCopies:
    """The target lost records of a copy."""

    def test_nothing_is_written_behind_the_gap(self) -> None:
        there = world(5, 5)
        there.run()
        for log in there.source.logs.values():
            log.records += [77]
        passes = there.run(cut_copies=CUT)
        cut, other = passes.tracks[TopicPartition("t", 0)], passes.tracks[TopicPartition("t", 1)]
        assert (cut.error_kind, cut.position, cut.lag) == ("DataLost", 5, 1)
        assert "the copy a.t-0 ends at offset 2, 4 offsets before the end" in str(cut.error)
        assert other.error is None
        assert there.target.records[TopicPartition("t", 0)] == [0, 1, 2, 3, 4]
        assert there.target.records[TopicPartition("t", 1)][-1] == 77

    def test_it_is_said_where_nothing_is_new_at_the_source(self) -> None:
        there = world(5)
        there.run()
        assert there.run(cut_copies=CUT).tracks[TopicPartition("t", 0)].error_kind == "DataLost"

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [(OnDataLoss.SKIP, [0, 1, 2, 3, 4, 77]), (OnDataLoss.RESET, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 77])],
    )
    def test_it_goes_on_as_the_operator_says(self, choice: OnDataLoss, expected: list[int]) -> None:
        there = world(5)
        there.run()
        there.source.logs[TopicPartition("t", 0)].records += [77]
        passes = there.run(cut_copies=CUT, on_target_loss=choice)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert there.target.records[TopicPartition("t", 0)] == expected
        assert any("on.target.loss" in note for note in there.notes)
        assert not passes.points.undecided

    def test_whoever_set_the_offset_back_has_decided(self) -> None:
        there = world(3)
        there.run()
        there.source.logs[TopicPartition("t", 0)].records += [3, 4, 77]
        passes = there.run(cut_copies=CUT)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert there.target.records[TopicPartition("t", 0)] == [0, 1, 2, 3, 4, 77]


@pytest.mark.parametrize("away_seconds", [5.0, 100.0])
def test_where_topics_start_is_written_by_new_identities_until_the_target_takes_it(away_seconds: float) -> None:
    there = world(3)
    genuine, used = there.remember, []

    def remember(memory: SourceTopics, identity: ProducerIdentity | None) -> ProducerIdentity | None:
        used.append(identity)
        if there.now < away_seconds:
            raise StateUnavailable("the state could not be written")
        return genuine(memory, identity)

    there.remember = remember  # type: ignore[method-assign]
    if away_seconds > 60:
        with pytest.raises(StateUnavailable):
            there.run()
        assert copied(there) == {}
    else:
        there.run()
        assert copied(there) == everything(there)
    assert len(set(used)) == len(used) > 5
