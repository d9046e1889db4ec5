"""The judge sees each kind of wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from srm_common.testing.fake_cluster import Record
from tests.simulation.judge import Judge, Wrong
from tests.simulation.load import Written


class _Load:
    def __init__(self, written: dict[tuple[str, int], dict[int, Written]]) -> None:
        self.written = written
        self.cut_away: dict[tuple[str, int], list[Written]] = {place: [] for place in written}
        self.deleted: dict[tuple[str, int], int] = {}
        self.not_promised: dict[tuple[str, int], int] = {}


class _Target:
    """The copy as a consumer reads it, and no offset map."""

    def __init__(self, copied: list[Record]) -> None:
        self.copied = copied

    def topics(self) -> dict[str, int]:
        return {"segments": 1}

    def records(self, topic: str, partition: int) -> list[Record]:
        return [] if topic == "segments" else self.copied


def _written(number: int) -> Record:
    return Record(number, 1000 + number, b"key", b"value %d" % number)


def _judge(copied: list[Record]) -> Judge:
    records = {number: Written(_written(number), number != 3, number) for number in range(5)}
    return Judge(_Load({("t", 0): records}), _Target(copied), {"t": "source.t"}, "segments")  # type: ignore[arg-type]


def _without(copied: list[Record], number: int) -> list[Record]:
    return [record for record in copied if record.offset != number]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda copied: _without(copied, 2), "1 records are not in the copy, from 2 on"),
        (lambda copied: [*copied[:2], copied[1], *copied[2:]], "the record at 1 is in the copy twice"),
        (lambda copied: [copied[1], copied[0], *copied[2:]], "the record at 0 comes after that at 1"),
        (lambda copied: [*copied, _written(3)], "the record at 3, of an aborted transaction, is in the copy"),
        (lambda copied: [*copied[:3], copied[3]._replace(timestamp_ms=0)], "the record at 4 was changed"),
        (lambda copied: [*copied, Record(9, 0, None, b"strange")], "was never written"),
        (lambda copied: copied, "no segment of the map covers the record at 0"),
    ],
)
def test_what_is_wrong_is_named(change: Callable[[list[Record]], list[Record]], what: str) -> None:
    copied = [_written(number) for number in range(5) if number != 3]
    with pytest.raises(Wrong, match=what):
        _judge(change(copied)).check()


def test_a_loss_that_no_run_has_named_is_wrong() -> None:
    copied = [_written(number) for number in (2, 4)]
    judge = _judge(copied)
    judge.load.deleted["t", 0] = 2
    with pytest.raises(Wrong, match="2 records were deleted before they were copied, and no run has said so"):
        judge.check()


def test_copies_of_what_the_source_has_lost_are_wrong_unless_a_run_has_named_them() -> None:
    copied = [_written(number) for number in (0, 1, 2, 4)]
    judge = _judge(copied)
    judge.load.cut_away["t", 0].append(judge.load.written["t", 0].pop(4))
    with pytest.raises(Wrong, match="the copy has records that the source has lost, and no run has said so"):
        judge.check()
    judge.told.add(("t", 0))
    assert judge.check() == 4
