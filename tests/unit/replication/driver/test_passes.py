"""The pass loop over a simulated pair of clusters: whatever happens to slots, each record arrives once, in
order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from srm_common.domain.cluster import UNLIMITED_MESSAGE_BYTES
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.runs.copying import CopyJob, ProducerIdentity, SlotResult, SlotTask
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import StateUnavailable
from srm_common.replication.driver.log_identity import Listed
from tests.unit.replication.driver.simulated_flow import copied, everything, world

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


@pytest.mark.parametrize(("cpu_seconds", "pause"), [(0.0, 0.5), (0.04, 0.5), (0.3, 3.0), (2.0, 10.0)])
def test_an_idle_run_pauses_in_proportion_to_what_a_listing_costs(cpu_seconds: float, pause: float) -> None:
    there = world(0)
    ends, pauses = there.source.ends, []

    def costly(partitions: Iterable[TopicPartition]) -> Listed:
        there.cpu += cpu_seconds
        return ends(partitions)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        there.now += seconds

    there.source.ends = costly  # type: ignore[method-assign]
    there.sleep = sleep  # type: ignore[method-assign]
    there.run(max_seconds=30.0)
    assert pauses[0] == pytest.approx(pause)


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


def test_settings_that_cannot_be_read_for_a_while_stay_as_they_were() -> None:
    """Where they never could be, the copy counts as one without limits."""
    there = world(5)
    passes = there.passes(max_seconds=1e9)
    looks = [
        CopiedTopic("t", "a.t", 1, max_message_bytes=5000, compacted=True),
        CopiedTopic("t", "a.t", 2, max_message_bytes=UNLIMITED_MESSAGE_BYTES, settings_known=False),
        CopiedTopic("t", "a.t", 2, max_message_bytes=7000),
    ]
    seen = []
    for number, look in enumerate(looks):
        passes.partitions.topics = partial(list, [look])
        there.now = 1000.0 * number
        passes.partitions.find()
        seen.append([(track.max_message_bytes, track.compacted) for track in passes.tracks.values()])
    unlimited = (UNLIMITED_MESSAGE_BYTES, False)
    assert seen == [[(5000, True)], [(5000, True), unlimited], [(7000, False)] * 2]
