"""Copies that are compared in parts, by tasks in this process: as one task finds it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from srm_common.domain.flow.names import StateKey
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.tasks import (
    MapStretch,
    TaskResult,
    VerificationJob,
    VerificationPart,
    VerificationTask,
    joined_results,
)
from srm_common.domain.verification.verification import (
    Against,
    PartitionVerified,
    Verdict,
    Verification,
    VerificationScope,
)
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.verification.kept_verification import verify_and_keep
from srm_common.usecases.verification.shared_verification import SharedVerification, verify_task
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.kafka.flows import write
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.verification.planted_faults import COPY, FAULTS
from tests.unit.usecases.verification.test_verify_copies import the_one

PLACE = TopicPartition("orders", 0)
CHUNKS = 6
_OF_THE_TOPIC = {"re-created topic", "deleted topic"}


@pytest.fixture
def copied(steady_sides: Sides) -> Sides:
    """Runs of two batches each, chunks of their own; the batches are too large to be merged."""
    steady_sides.source.create_topic("orders", 2)
    steady_sides.refresh()
    for number in range(CHUNKS):
        for batch in range(2):
            write(steady_sides.source, "orders", [b"%d %d %d " % (number, batch, n) * 100 for n in range(10)])
        steady_sides.run(f"run-{number}")
    return steady_sides


def starts(sides: Sides) -> list[int]:
    """Downstream offsets of the segments."""
    ((_, segment_map),) = sides.clusters().target.segment_log("mm2-offset-segments.a.internal").maps([PLACE])
    return list(segment_map.downstream_starts)


def stretches_at(cuts: Sequence[int]) -> list[MapStretch]:
    bounds: list[int | None] = [None, *cuts, None]
    return [MapStretch(*bounds[at : at + 2]) for at in range(len(bounds) - 1)]


def in_stretches(sides: Sides, cuts: Sequence[int]) -> PartitionVerified:
    """What tasks find that have a stretch each."""
    job = VerificationJob(sides.flow, VerificationScope(), Against.MAP)
    found = []
    for stretch in stretches_at(cuts):
        (one,) = verify_task(job, VerificationTask(0, (VerificationPart(PLACE, COPY, 1, stretch),))).results
        found.append(one)
    return joined_results(found)


@pytest.mark.parametrize("fault", ["none", *sorted(FAULTS.keys() - _OF_THE_TOPIC)])
def test_wherever_it_is_cut_the_same_is_found(copied: Sides, fault: str) -> None:
    plant = FAULTS.get(fault)
    if plant is not None:
        plant[0](copied, copied.target.log(COPY, 0))
    whole = the_one(verify_copies(copied.clusters()))
    cuts = starts(copied)[1:]
    assert len(cuts) == CHUNKS - 1
    for chosen in (*([cut] for cut in cuts), cuts):
        together = in_stretches(copied, chosen)
        wanted = whole.findings.to_json()
        found = together.findings.to_json()
        if fault == "doubled batch":
            # The first one of the two lies in another stretch.
            for one in (wanted, found):
                one["counts"] = sum(one["counts"].values())
                one["differences"] = [difference["downstream_first"] for difference in one["differences"]]
        assert found == wanted
        assert (together.verdict, together.log_end) == (whole.verdict, whole.log_end)


def test_what_others_wrote_between_two_stretches_is_found_once(copied: Sides) -> None:
    write(copied.target, COPY, [b"not ours"] * 3)
    write(copied.source, "orders", [b"later"] * 10)
    copied.run("later")
    verified = in_stretches(copied, [starts(copied)[-1]])
    assert (verified.findings.counts, verified.findings.proved) == ({DifferenceKind.FOREIGN: 1}, CHUNKS * 20 + 10)
    assert verified.findings.to_json() == the_one(verify_copies(copied.clusters())).findings.to_json()


def test_a_flow_without_transactions_is_compared_up_to_the_next_stretch(copied: Sides) -> None:
    """At its end a chunk may be on its way there, but not before a chunk that the map tells of."""
    write(copied.target, COPY, [b"not ours"])
    write(copied.source, "orders", [b"later"] * 10)
    copied.run("later")
    copied.set(exactly_once=False)
    assert in_stretches(copied, [starts(copied)[-1]]).findings.counts == {DifferenceKind.FOREIGN: 1}


def large(sides: Sides) -> None:
    """Records as if they had 64 MB each, so that partitions are cut."""
    sides.clusters().state.write(StateKey.SIZES, {"orders": 64 << 20})


def run_here(job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
    """A runner: one task after the other, in this process."""
    for task in tasks:
        yield verify_task(job, task)


class Counting:
    """A runner that knows what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[VerificationTask]] = []

    def __call__(self, job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
        self.batches.append(list(tasks))
        # As it goes to workers.
        return run_here(*pickle.loads(pickle.dumps((job, tasks))))


def shared(sides: Sides, runner: Counting, **options: object) -> Verification:
    return verify_and_keep(sides.clusters(), share=SharedVerification(runner, 1), **options)  # type: ignore[arg-type]


def test_tasks_find_what_one_process_finds(copied: Sides) -> None:
    large(copied)
    alone = verify_copies(copied.clusters())
    runner = Counting()
    verification = shared(copied, runner)
    (tasks,) = runner.batches
    assert len(tasks) > 3
    assert [partition.findings for partition in verification.partitions] == [
        partition.findings for partition in alone.partitions
    ]
    assert verification.counts == {Verdict.PROVED: 1, Verdict.NOTHING: 1}
    assert verification.evidence == alone.evidence
    assert all(partition.checked_ms >= verification.started_ms for partition in verification.partitions)


def test_against_the_source_partitions_are_not_cut(copied: Sides) -> None:
    large(copied)
    runner = Counting()
    verification = shared(copied, runner, against=Against.SOURCE)
    assert [len(task.parts) for (tasks) in runner.batches for task in tasks] == [1, 1]
    assert the_one(verification).findings.proved == CHUNKS * 20


def test_secrets_of_the_source_go_to_no_worker_that_does_not_read_it(copied: Sides) -> None:
    secret = "hush-hush"
    source = replace(
        copied.flow.source, kafka_python={**copied.flow.source.kafka_python, "sasl_plain_password": secret}
    )
    jobs = []

    def runner(job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
        jobs.append(job)
        return run_here(job, tasks)

    copied.set(source=source)
    copied.close()
    for against in Against:
        verify_copies(copied.clusters(), against=against, share=SharedVerification(runner, 1))
    assert [secret.encode() in pickle.dumps(job) for job in jobs] == [False, True]
    assert all(secret not in repr(job) for job in jobs)


def test_little_is_compared_here(copied: Sides) -> None:
    runner = Counting()
    verification = verify_copies(copied.clusters(), share=SharedVerification(runner, 1 << 20))
    assert (runner.batches, the_one(verification).verdict) == ([], Verdict.PROVED)


def test_segments_that_are_joined_meanwhile_have_the_partition_compared_as_a_whole(copied: Sides) -> None:
    class Joining(Counting):
        def __call__(self, job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
            results = super().__call__(job, tasks)
            yield next(results)
            if len(self.batches) == 1:
                before = starts(copied)
                sync_checkpoints(copied.clusters(), at_once=True)
                sync_checkpoints(copied.clusters(), at_once=True)
                assert len(starts(copied)) < len(before)
            yield from results

    for number in range(12):
        write(copied.source, "orders", [b"x"] * 3)
        copied.run(f"more-{number}")
    large(copied)
    runner = Joining()
    verified = the_one(shared(copied, runner))
    first, again = runner.batches
    assert len(first) > 2
    assert [(part.place, part.stretch) for task in again for part in task.parts] == [(PLACE, MapStretch())]
    assert (verified.verdict, verified.findings.proved) == (Verdict.PROVED, CHUNKS * 20 + 36)


def test_a_lost_task_is_a_fault_of_its_partitions_and_a_resumed_one_compares_them_alone(copied: Sides) -> None:
    large(copied)

    class Losing(Counting):
        def __call__(self, job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
            results = super().__call__(job, tasks)
            next(results)
            yield TaskResult.failed(tasks[0], "its worker was lost")
            yield from results

    verification = shared(copied, Losing())
    assert verification.counts == {Verdict.FAILED: 1, Verdict.NOTHING: 1}
    assert the_one(verification).fault == "its worker was lost"
    runner = Counting()
    rest = shared(copied, runner, resume=True)
    assert {part.place for tasks in runner.batches for task in tasks for part in task.parts} == {PLACE}
    assert rest.counts == {Verdict.PROVED: 1, Verdict.NOTHING: 1}
    assert rest.started_ms == verification.started_ms
    assert the_one(rest).findings.proved == CHUNKS * 20


def test_a_topic_that_is_deleted_meanwhile_is_a_fault(copied: Sides) -> None:
    class Deleting(Counting):
        def __call__(self, job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
            FAULTS["deleted topic"][0](copied, copied.target.log(COPY, 0))
            return super().__call__(job, tasks)

    verification = shared(copied, Deleting())
    assert not verification.clean
    by_partition = {partition.partition: partition for partition in verification.partitions}
    assert set(by_partition[0].findings.counts) == {DifferenceKind.DELETED}
    assert "verify again" in str(by_partition[1].fault)


def test_a_cluster_that_does_not_answer_a_task_is_its_fault(copied: Sides) -> None:
    copied.impatient()
    part = VerificationPart(PLACE, COPY, 1)
    job = VerificationJob(copied.flow, VerificationScope(), Against.MAP)
    copied.target.close()
    result = verify_task(job, VerificationTask(3, (part,)))
    assert (result.number, [verified.place for verified in result.results]) == (3, [PLACE])
    assert "'b'" in str(result.results[0].fault)
