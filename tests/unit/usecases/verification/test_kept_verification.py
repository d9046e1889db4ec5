from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.flow.names import StateKey
from srm_common.domain.health.health import AlarmKind
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.monitoring.flow_history import NO_RUNS
from srm_common.domain.monitoring.folding import fold
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.summary import VerificationSummary
from srm_common.domain.verification.verification import Against, PartitionVerified, Verdict, VerificationScope
from srm_common.errors import CorruptRecord
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.verification.kept_verification import (
    kept_results,
    newest_start,
    results_in,
    summary_in,
    verify_and_keep,
)
from tests.kafka.flows import write
from tests.kafka.records import delete_topic
from tests.unit.usecases.fakes import Sides


class Stopped(Exception):
    """The operator had enough."""


@pytest.fixture
def copied(steady_sides: Sides) -> Sides:
    """Two topics of one partition, two chunks each."""
    for topic in ("orders", "orders-2"):
        steady_sides.source.create_topic(topic)
    steady_sides.refresh()
    for number in range(2):
        for topic in ("orders", "orders-2"):
            write(steady_sides.source, topic, [b"%d" % number] * 10)
        steady_sides.run(f"run-{number}")
    return steady_sides


def kept(sides: Sides) -> tuple[VerificationSummary, dict[str, dict[int, PartitionVerified]]]:
    """What the flow remembers."""
    known = sides.clusters().state.read_all(StateKey.VERIFICATION, prefix=StateKey.VERIFIED)
    summary = summary_in(known)
    assert summary is not None
    return summary, results_in(known)


def test_results_are_remembered_and_come_to_a_summary(copied: Sides) -> None:
    assert summary_in(copied.clusters().state.read_all()) is None
    verification = verify_and_keep(copied.clusters())
    summary, results = kept(copied)
    assert summary.proved
    assert (summary.counts, summary.records, summary.sentence) == ({Verdict.PROVED: 2}, 40, None)
    assert summary.ended_ms == verification.ended_ms
    assert summary.configuration == copied.flow.digest
    assert {topic: list(one) for topic, one in results.items()} == {"orders": [0], "orders-2": [0]}


def test_one_that_was_stopped_goes_on_where_it_was(copied: Sides) -> None:
    def stop(result: PartitionVerified) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        verify_and_keep(copied.clusters(), report=stop)
    summary, results = kept(copied)
    assert summary.ended_ms is None
    (first,) = results
    compared: list[PartitionVerified] = []
    rest = verify_and_keep(copied.clusters(), resume=True, report=compared.append)
    assert [verified.topic for verified in compared] == [topic for topic in ("orders", "orders-2") if topic != first]
    assert [partition.topic for partition in rest.partitions] == ["orders", "orders-2"]
    assert rest.started_ms == summary.started_ms
    summary, _ = kept(copied)
    assert summary.ended_ms is not None
    assert summary.counts == {Verdict.PROVED: 2}
    # There is nothing left to resume: all of it is compared.
    assert len(verify_and_keep(copied.clusters(), resume=True).partitions) == 2


def stopped(sides: Sides, *, after: int = 1, **options: Any) -> list[PartitionVerified]:
    """A verification that is ended after so many results, which these are."""
    seen: list[PartitionVerified] = []

    def stop(result: PartitionVerified) -> None:
        seen.append(result)
        if len(seen) == after:
            raise Stopped

    with pytest.raises(Stopped):
        verify_and_keep(sides.clusters(), report=stop, **options)
    return seen


def test_a_difference_before_the_interruption_is_one_of_the_whole(copied: Sides) -> None:
    for copy in ("a.orders", "a.orders-2"):
        write(copied.target, copy, [b"not ours"])
    (first,) = stopped(copied)
    # The other copy is as it should be again.
    other = "a.orders" if first.copy == "a.orders-2" else "a.orders-2"
    log = copied.target.log(other, 0)
    log.end = log.batches.pop().header.base_offset
    rest = verify_and_keep(copied.clusters(), resume=True)
    assert not rest.clean
    assert [verified.copy for verified in rest.different] == [first.copy]


def test_one_that_began_too_early_is_not_gone_on_with(copied: Sides) -> None:
    stopped(copied)
    began = kept(copied)[0].started_ms
    compared: list[PartitionVerified] = []
    verify_and_keep(copied.clusters(), resume=True, resume_since_ms=began + 1, report=compared.append)
    assert len(compared) == 2


def test_one_that_is_ended_before_its_first_result_leaves_no_earlier_one_to_resume(copied: Sides) -> None:
    (before,) = stopped(copied)

    def ended(copies: object) -> bool:
        raise Stopped

    with pytest.raises(Stopped):
        verify_and_keep(copied.clusters(), share=ended)
    compared: list[PartitionVerified] = []
    verify_and_keep(copied.clusters(), resume=True, report=compared.append)
    assert before.place in {verified.place for verified in compared}


def test_a_part_that_was_compared_is_not_the_whole(copied: Sides) -> None:
    stopped(copied, scope=VerificationScope(sample=0.01))
    compared: list[PartitionVerified] = []
    verify_and_keep(copied.clusters(), resume=True, report=compared.append)
    assert len(compared) == 2


def test_the_results_that_are_kept_are_those_of_the_newest(copied: Sides) -> None:
    clusters = copied.clusters()
    assert newest_start(clusters) is None
    verify_and_keep(clusters)
    before = newest_start(clusters)
    assert kept_results(clusters, lambda topic: True, before) == []
    began = verify_and_keep(clusters, chosen=lambda topic: topic == "orders").started_ms
    assert newest_start(clusters) == began
    assert [result.topic for result in kept_results(clusters, lambda topic: True, before)] == ["orders"]
    assert kept_results(clusters, lambda topic: topic != "orders", before) == []
    assert kept_results(clusters, lambda topic: True, began) == []
    assert kept_results(clusters, lambda topic: True, began, began + 1) == []
    # Nothing new, but what was to be resumed, which goes by its own start.
    assert [result.topic for result in kept_results(clusters, lambda topic: True, began, began)] == ["orders"]


def with_clock(sides: Sides, ahead_seconds: float) -> FlowClusters:
    """The clusters as a machine sees them whose clock is ahead by that much, or behind."""
    return FlowClusters(sides.flow, clock=lambda: time.time() + ahead_seconds)


@pytest.mark.parametrize("ahead_seconds", [-600.0, 600.0])
def test_results_count_whatever_the_clock_is_of_who_found_them(copied: Sides, ahead_seconds: float) -> None:
    before = newest_start(copied.clusters())
    write(copied.target, "a.orders", [b"not ours"])
    with with_clock(copied, ahead_seconds) as elsewhere:
        verify_and_keep(elsewhere)
    found = kept_results(copied.clusters(), lambda topic: True, before)
    assert {result.topic: result.verdict for result in found} == {
        "orders": Verdict.DIFFERENT,
        "orders-2": Verdict.PROVED,
    }


def test_results_count_of_who_resumes_by_a_clock_that_is_behind(copied: Sides) -> None:
    stopped(copied)
    before = newest_start(copied.clusters())
    with with_clock(copied, -600.0) as elsewhere:
        verify_and_keep(elsewhere, resume=True)
    found = kept_results(copied.clusters(), lambda topic: True, before, resume_since_ms=0)
    assert [result.topic for result in found] == ["orders", "orders-2"]


def test_what_the_source_cannot_tell_takes_back_no_proof(copied: Sides) -> None:
    verify_and_keep(copied.clusters())
    copied.source.log("orders", 0).delete_before(5)
    delete_topic(copied.source, "orders-2")
    verification = verify_and_keep(copied.clusters(), against=Against.SOURCE)
    assert verification.counts == {Verdict.FAILED: 1, Verdict.PARTLY: 1}
    summary, _ = kept(copied)
    assert (summary.against, summary.counts) == (Against.SOURCE, {Verdict.PROVED: 2})
    write(copied.target, "a.orders", [b"not ours"])
    verify_and_keep(copied.clusters(), against=Against.SOURCE)
    assert kept(copied)[0].counts == {Verdict.PROVED: 1, Verdict.DIFFERENT: 1}


def test_only_a_verification_of_the_same_kind_is_resumed(copied: Sides) -> None:
    def stop(result: PartitionVerified) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        verify_and_keep(copied.clusters(), report=stop)
    assert len(verify_and_keep(copied.clusters(), against=Against.SOURCE, resume=True).partitions) == 2


def test_a_sample_without_a_difference_takes_back_no_proof_and_no_difference(copied: Sides) -> None:
    verify_and_keep(copied.clusters())
    verify_and_keep(copied.clusters(), VerificationScope(sample=0.01))
    assert kept(copied)[0].counts == {Verdict.PROVED: 2}
    write(copied.target, "a.orders", [b"not ours"])
    verify_and_keep(copied.clusters())
    summary, results = kept(copied)
    assert summary.sentence is not None
    assert summary.sentence.startswith(
        "in 1 of 2 partitions the copy differs from what was committed, the first: a.orders-0, offset 22: "
    )
    assert results["orders"][0].findings.counts == {DifferenceKind.FOREIGN: 1}
    verify_and_keep(copied.clusters(), VerificationScope(sample=0.01))
    assert kept(copied)[0].counts == {Verdict.DIFFERENT: 1, Verdict.PROVED: 1}


def test_topics_that_are_not_chosen_keep_their_results(copied: Sides) -> None:
    verify_and_keep(copied.clusters())
    before = kept(copied)[1]["orders-2"]
    verify_and_keep(copied.clusters(), chosen=lambda topic: topic == "orders")
    assert kept(copied)[1]["orders-2"] == before


def test_what_no_verification_has_compared_is_not_proved(copied: Sides) -> None:
    verify_and_keep(copied.clusters(), chosen=lambda topic: topic == "orders")
    report = make_report(copied.clusters(), "run-1")
    history = fold(NO_RUNS, report)
    assert (history.proved_partitions, history.uncompared_partitions) == (1, 1)
    # A run that could not look knows nothing else.
    assert report.verification is not None
    told = replace(report.verification, uncompared=0)
    unable = replace(report, run_id="run-2", run=None, fault="no broker responds", verification=told)
    assert fold(history, unable).uncompared_partitions == 1
    verify_and_keep(copied.clusters(), chosen=lambda topic: topic == "orders-2")
    report = make_report(copied.clusters(), "run-1")
    assert report.verification is not None
    assert report.verification.proved
    assert fold(history, report).uncompared_partitions == 0


def test_reports_have_the_result_of_each_partition(copied: Sides) -> None:
    assert make_report(copied.clusters(), "run-1").verified is None
    verify_and_keep(copied.clusters())
    write(copied.target, "a.orders", [b"not ours"])
    verify_and_keep(copied.clusters(), VerificationScope(since_ms=1), against=Against.SOURCE)
    report = make_report(copied.clusters(), "run-1")
    assert RunReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert report.verified is not None
    one, other = (dict(zip(report.verified["columns"], row, strict=True)) for row in report.verified["rows"])
    assert (one["topic"], one["verdict"], one["against"], one["whole"]) == ("orders", "different", "source", False)
    assert (one["difference"]["kind"], one["difference"]["downstream_first"]) == ("foreign", 22)
    assert (other["topic"], other["verdict"], other["against"], other["whole"]) == ("orders-2", "proved", "map", True)
    assert (other["proved_to"], other["proved"]) == (20, 20)


def test_of_a_copy_that_is_another_topic_no_partition_stays_proved(steady_sides: Sides) -> None:
    steady_sides.source.create_topic("orders", 2)
    steady_sides.refresh()
    for partition in range(2):
        write(steady_sides.source, "orders", [b"x"], partition)
    steady_sides.run("r")
    verify_and_keep(steady_sides.clusters())
    assert kept(steady_sides)[0].counts == {Verdict.PROVED: 2}
    delete_topic(steady_sides.target, "a.orders")
    verify_and_keep(steady_sides.clusters())
    assert kept(steady_sides)[0].counts == {Verdict.DIFFERENT: 1}


def test_topics_and_records_that_came_later_are_not_proved(copied: Sides) -> None:
    for topic in ("orders-3", "orders-4"):
        copied.source.create_topic(topic)
    copied.refresh()
    copied.run("run-2")
    verify_and_keep(copied.clusters())
    # There is nothing in them yet.
    report = make_report(copied.clusters(), "run-2")
    assert report.verification is not None
    assert (report.verification.counts, report.verification.uncompared) == (
        {Verdict.PROVED: 2, Verdict.NOTHING: 2},
        0,
    )
    copied.source.create_topic("orders-5")
    copied.refresh()
    copied.run("run-3")
    assert fold(NO_RUNS, make_report(copied.clusters(), "run-3")).uncompared_partitions == 0
    for topic in ("orders-3", "orders-5"):
        write(copied.source, topic, [b"later"])
    copied.run("run-4")
    report = make_report(copied.clusters(), "run-4")
    assert report.verification is not None
    assert not report.verification.proved
    assert report.verification.uncompared == 2
    verify_and_keep(copied.clusters())
    assert fold(NO_RUNS, make_report(copied.clusters(), "run-4")).uncompared_partitions == 0


def test_a_copy_that_retention_has_emptied_need_not_be_compared(copied: Sides) -> None:
    log = copied.target.log("a.orders", 0)
    log.delete_before(log.end)
    verify_and_keep(copied.clusters())
    assert fold(NO_RUNS, make_report(copied.clusters(), "run-1")).uncompared_partitions == 0


def test_what_cannot_be_read_is_not_overwritten(copied: Sides) -> None:
    copied.clusters().state.write(StateKey.VERIFICATION, {"version": 99})
    with pytest.raises(CorruptRecord, match="version 99"):
        verify_and_keep(copied.clusters())
    copied.clusters().state.write(StateKey.VERIFICATION, None)
    copied.clusters().state.write(StateKey.VERIFIED + "orders", {"version": 1, "partitions": {"0": {}}})
    with pytest.raises(CorruptRecord, match="orders"):
        verify_and_keep(copied.clusters())


def test_the_next_run_reports_it_for_the_alarm_until_it_is_gone(copied: Sides) -> None:
    assert make_report(copied.clusters(), "run-1").verification is None
    write(copied.target, "a.orders", [b"not ours"])
    verify_and_keep(copied.clusters())
    report = make_report(copied.clusters(), "run-1")
    history = fold(NO_RUNS, report)
    assert (history.different_partitions, history.proved_partitions) == (1, 1)
    seen = observe(copied.flow.name, history, copied.flow, None, copied.clusters().now_ms())
    (alarm,) = [one for one in judge(seen).alarms if one.kind is AlarmKind.COPIES_DIFFER]
    assert "a.orders-0, offset 22: records that the flow did not write" in alarm.text
    # What an operator has removed is proved again, and no alarm any more.
    log = copied.target.log("a.orders", 0)
    log.end = log.batches.pop().header.base_offset
    verify_and_keep(copied.clusters())
    history = fold(history, make_report(copied.clusters(), "run-1"))
    assert (history.copies_differ, history.proved_partitions, history.different_partitions) == (None, 2, 0)
    assert history.verified_ms is not None
