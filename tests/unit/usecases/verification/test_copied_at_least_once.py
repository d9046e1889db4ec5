"""Flows that copy at least once, and were interrupted between the records and what they commit."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import names
from srm_common.domain.verification.differences import DifferenceKind, NotProved
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.kafka.flows import Seen, write
from tests.kafka.records import produce
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.verification.planted_faults import COPY

_NOT_ENOUGH_REPLICAS = 19


@pytest.fixture
def repeated(steady_sides: Sides) -> Sides:
    """Records 4 to 9 were written twice before they were committed, then those from 10 on."""
    sides = steady_sides
    sides.set(exactly_once=False)
    sides.source.create_topic("orders", 1)
    sides.refresh()
    _write(sides, 0, 4)
    sides.run("whole")
    _write(sides, 4, 10)
    for run in ("first", "second"):
        with sides.target.refuse("Produce", _NOT_ENOUGH_REPLICAS, when=names.offsets_topic("a")):
            sides.set(retry_timeout_seconds=1.0)
            sides.run(run)
    sides.set(retry_timeout_seconds=60.0)
    _write(sides, 10, 16)
    sides.run("at last")
    values = [int(value or b"") for value in sides.values(COPY)]
    assert values == [*range(4), *range(4, 10), *range(4, 10), *range(4, 16)]
    return sides


def _write(sides: Sides, first: int, end: int) -> None:
    for number in range(first, end, 2):
        write(sides.source, "orders", [b"%d" % number, b"%d" % (number + 1)])


@pytest.mark.parametrize("against", Against)
def test_what_was_written_twice_is_the_flows_own(repeated: Sides, against: Against) -> None:
    (one,) = verify_copies(repeated.clusters(), against=against).partitions
    assert (one.findings.differences, one.findings.not_proved) == ([], {NotProved.COPIED_AGAIN: 12})
    assert one.findings.proved == 16


def test_and_raises_no_alarm(repeated: Sides) -> None:
    assert check_copies(repeated.clusters()).found == ()


@pytest.mark.parametrize("against", Against)
def test_what_others_wrote_among_it_is_found(repeated: Sides, against: Against) -> None:
    write(repeated.target, COPY, [b"other"])
    _write(repeated, 16, 18)
    repeated.run("behind")
    (one,) = verify_copies(repeated.clusters(), against=against).partitions
    assert one.verdict is Verdict.DIFFERENT
    (difference,) = one.findings.differences
    assert (difference.kind, difference.downstream_first) == (DifferenceKind.FOREIGN, 28)
    (found,) = check_copies(repeated.clusters()).found
    assert (found.first, found.last, found.records) == (28, 28, 1)


@pytest.mark.parametrize("against", Against)
def test_a_second_copier_is_not_taken_for_interruptions(steady_sides: Sides, against: Against) -> None:
    """A MirrorMaker 2 that was not stopped copies each record before the flow does."""
    sides = steady_sides
    sides.set(exactly_once=False)
    sides.source.create_topic("orders", 1)
    _write(sides, 0, 2)
    sides.refresh()
    sides.run("first")
    for number in range(2, 10, 2):
        _write(sides, number, number + 2)
        copied = sides.source.records("orders")[-2:]
        produce(sides.target, COPY, 0, [Seen(one.key, one.value, (), one.timestamp_ms) for one in copied])
        sides.run(f"from {number}")
    assert len(check_copies(sides.clusters()).found) == 4
    (one,) = verify_copies(sides.clusters(), against=against).partitions
    assert one.findings.counts == {DifferenceKind.FOREIGN: 4}
