"""Copies that lost their end, and have grown again since."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.repair_plan import repair_plan
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.kafka.flows import write
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.verification.planted_faults import COPY


def numbered(sides: Sides, first: int, count: int) -> None:
    for number in range(first, first + count):
        write(sides.source, "orders", [b"%d" % number])


@pytest.mark.parametrize("against", Against)
@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        pytest.param(4, 4, id="before a marker"),
        pytest.param(5, 4, id="behind a marker"),
        pytest.param(8, 4, id="within a chunk"),
    ],
)
def test_what_a_cut_log_lost_is_told_and_offered(steady_sides: Sides, against: Against, keep: int, kept: int) -> None:
    """The flow went on behind it, so that nothing was copied again."""
    sides = steady_sides
    sides.set(on_target_loss=OnDataLoss.SKIP)
    sides.source.create_topic("orders", 1)
    sides.refresh()
    for first, count in ((0, 4), (4, 10)):
        numbered(sides, first, count)
        sides.run(f"at {first}")
    sides.target.move_leader(COPY, keep=keep)
    numbered(sides, 14, 20)
    sides.run("behind")
    assert [int(value or b"") for value in sides.values(COPY)] == [*range(kept), *range(14, 34)]
    (one,) = verify_copies(sides.clusters(), against=against).partitions
    assert (one.verdict, one.findings.proved, one.findings.not_proved) == (Verdict.DIFFERENT, 20 + kept, {})
    assert set(one.findings.counts) == {DifferenceKind.LOST}
    assert one.findings.proved_to == kept
    lost = [range(one.upstream_first, one.upstream_last + 1) for one in one.findings.differences]
    assert sorted(offset for offsets in lost for offset in offsets) == list(range(kept, 14))
    (step,) = repair_plan("a->b", [one])
    assert step.first == kept


@pytest.mark.parametrize("against", Against)
def test_no_offset_is_offered_for_a_copy_that_was_cut_to_nothing(steady_sides: Sides, against: Against) -> None:
    """What was written before the flow began is no loss, and the map does not tell any more where that was."""
    sides = steady_sides
    sides.set(on_target_loss=OnDataLoss.SKIP, auto_offset_reset="latest")
    sides.source.create_topic("orders", 1)
    numbered(sides, 0, 5)
    sides.refresh()
    sides.run("from here")
    numbered(sides, 5, 5)
    sides.run("some")
    sides.target.move_leader(COPY, keep=0)
    numbered(sides, 10, 3)
    sides.run("behind")
    assert [int(value or b"") for value in sides.values(COPY)] == [10, 11, 12]
    (one,) = verify_copies(sides.clusters(), against=against).partitions
    (difference,) = one.findings.differences
    assert (difference.kind, difference.upstream_first) == (DifferenceKind.LOST, -1)
    assert "all that was copied before offset 10 of the source" in str(difference)
    (step,) = repair_plan("a->b", [one])
    assert (step.first, step.command) == (None, None)
