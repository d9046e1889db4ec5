from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.fingerprints import PRIME, Fingerprint
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.tasks import (
    WHOLE,
    MapStretch,
    VerificationPart,
    joined_results,
    share_out,
    task_bytes,
)
from srm_common.domain.verification.verification import PartitionVerified

MB = 1 << 20


def part(partition: int, size: int, stretch: MapStretch = WHOLE) -> VerificationPart:
    return VerificationPart(TopicPartition("orders", partition), "a.orders", size, stretch)


@given(st.lists(st.integers(0, 3000 * MB), max_size=60), st.integers(1, 16))
def test_each_part_is_in_one_task_whatever_their_order(sizes: list[int], slots: int) -> None:
    parts = [part(number, size) for number, size in enumerate(sizes)]
    tasks = share_out(parts, slots)
    assert sorted(verification_part.place for task in tasks for verification_part in task.parts) == [
        verification_part.place for verification_part in parts
    ]
    assert [task.number for task in tasks] == list(range(len(tasks)))
    wanted = task_bytes(sum(sizes), slots)
    assert all(
        len(task.parts) == 1 or sum(verification_part.bytes for verification_part in task.parts) <= wanted
        for task in tasks
    )
    assert share_out(reversed(parts), slots) == tasks
    loads = [sum(verification_part.bytes for verification_part in task.parts) for task in tasks]
    assert loads == sorted(loads, reverse=True)


def test_stretches_of_one_partition_are_in_tasks_of_their_own_however_small() -> None:
    parts = [part(0, 10, MapStretch(None, 50)), part(0, 10, MapStretch(50, None)), part(1, 10), part(2, 10)]
    assert sorted(len(task.parts) for task in share_out(parts, 2)) == [1, 1, 2]


def test_thousands_of_empty_partitions_are_no_single_task() -> None:
    assert len(share_out([part(number, 0) for number in range(1200)], 2)) == 3


@pytest.mark.parametrize(
    ("stretch", "indexes"),
    [
        (WHOLE, (0, 3)),
        (MapStretch(None, 20), (0, 1)),
        (MapStretch(20, 30), (1, 2)),
        (MapStretch(30, None), (2, 3)),
        # A segment was joined to the one before it, or is gone.
        (MapStretch(15, 30), None),
        (MapStretch(20, 25), None),
        (MapStretch(40, None), None),
    ],
)
def test_a_stretch_is_found_where_segments_still_begin(stretch: MapStretch, indexes: tuple[int, int] | None) -> None:
    assert stretch.indexes([10, 20, 30]) == indexes
    assert pickle.loads(pickle.dumps(stretch)) == stretch


def result(findings: Findings, fault: str | None = None, **fields: int) -> PartitionVerified:
    return replace(PartitionVerified("orders", 0, "a.orders", findings, fault=fault), **fields)  # type: ignore[arg-type]


def found(proved: int, proved_from: int, proved_to: int, **fields: Any) -> Findings:
    return Findings(
        proved=proved, proved_from=proved_from, proved_to=proved_to, proved_to_downstream=proved_to, **fields
    )


def test_results_of_stretches_are_added_up() -> None:
    lost = Difference(DifferenceKind.LOST, 12, 13)
    one = result(
        found(10, 0, 10, segments=1, bytes=5, fingerprint=Fingerprint(PRIME - 1, 3)),
        log_start=0,
        log_end=90,
        checked_ms=7,
    )
    two = result(
        found(5, 10, 12, segments=2, bytes=6, differences=[lost], counts={DifferenceKind.LOST: 1}),
        log_start=0,
        log_end=91,
        checked_ms=6,
    )
    three = result(
        found(10, 20, 30, segments=1, bytes=7, not_proved={NotProved.RETENTION: 3}, fingerprint=Fingerprint(5, 4)),
        checked_ms=8,
    )
    joined = joined_results([one, two, three])
    findings = joined.findings
    assert (findings.proved, findings.segments, findings.bytes) == (25, 4, 18)
    assert (findings.proved_from, findings.proved_to) == (0, 12)
    assert findings.fingerprint == Fingerprint(4, 7)
    assert (findings.differences, findings.counts) == ([lost], {DifferenceKind.LOST: 1})
    assert findings.not_proved == {NotProved.RETENTION: 3}
    assert (joined.log_start, joined.log_end, joined.checked_ms, joined.fault) == (0, 91, 6, None)
    # What went in is as it was.
    assert one.findings.proved == 10


def test_nothing_is_proved_up_to_an_offset_behind_what_could_not_be_read() -> None:
    joined = joined_results([result(found(10, 0, 10)), result(Findings(), "no leader"), result(found(10, 20, 30))])
    assert (joined.fault, joined.findings.proved, joined.findings.proved_to) == ("no leader", 20, 10)


def test_no_more_differences_are_kept_than_of_one_partition() -> None:
    def many() -> Findings:
        findings = Findings()
        for number in range(15):
            findings.add(Difference(DifferenceKind.FOREIGN, number, number))
        return findings

    joined = joined_results([result(many()), result(many())]).findings
    assert (len(joined.differences), joined.counts) == (Findings.MOST, {DifferenceKind.FOREIGN: 30})
