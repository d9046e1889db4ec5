from __future__ import annotations

from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings
from srm_common.domain.verification.repair_plan import repair_plan
from srm_common.domain.verification.summary import shortened
from srm_common.domain.verification.verification import PartitionVerified


def result(*differences: Difference, partition: int = 0) -> PartitionVerified:
    findings = Findings(segments=3)
    for difference in differences:
        findings.add(difference)
    return PartitionVerified("it's", partition, "a.it's", findings)


LOST = Difference(DifferenceKind.LOST, 50, 59, 45, 54)
CHANGED = Difference(DifferenceKind.CHANGED, 20, 29, 15, 24)
FOREIGN = Difference(DifferenceKind.FOREIGN, 5, 9)


def test_one_offset_mends_all_that_can_be_copied_again() -> None:
    again, left = repair_plan("a->b", [result(FOREIGN, LOST, CHANGED)])
    assert (again.kind, again.first) == (DifferenceKind.CHANGED, 15)
    assert again.command == (
        "srm-control source-offsets set --flow 'a->b' --topic 'it'\"'\"'s' --partition 0 --offset 15"
    )
    assert "from offset 15 on again" in again.effect
    assert (left.kind, left.first, left.command) == (DifferenceKind.FOREIGN, None, None)


def test_partitions_without_a_difference_have_no_steps_and_the_others_come_in_order() -> None:
    steps = repair_plan("a->b", [result(LOST, partition=2), result(), result(LOST, partition=1)])
    assert [step.partition for step in steps] == [1, 2]


def test_each_kind_has_an_effect_that_fits() -> None:
    for kind in DifferenceKind:
        (step,) = repair_plan("a->b", [result(Difference(kind, -1, -1))])
        assert (step.first, step.command) == (None, None)
        assert step.to_json()["effect"]
    (step,) = repair_plan("a->b", [result(Difference(DifferenceKind.DELETED, -1, -1))])
    assert "on.target.loss" in step.effect


def test_what_is_remembered_is_enough_for_it() -> None:
    many = [Difference(DifferenceKind.LOST, at, at, at, at) for at in range(100, 110)]
    verified = result(FOREIGN, LOST, *many, CHANGED)
    assert len(shortened(verified).findings.differences) == 3
    assert repair_plan("a->b", [shortened(verified)]) == [
        repair_plan("a->b", [verified])[0],
        *repair_plan("a->b", [result(FOREIGN)]),
    ]
