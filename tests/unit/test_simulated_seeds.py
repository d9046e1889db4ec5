"""What docs/reliability.md says of the seeds of the simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import reports
from tests.simulation.faults import KINDS
from tests.simulation.seeds import Seed, read, table


def _seeds(count: int) -> list[Seed]:
    return [Seed(number, "0123abcd", "ff", 36.0, ["log cut", "log cut", "silence"], 2, 1000) for number in range(count)]


def _wrong() -> Seed:
    return Seed(7, "0123abcd+", "ff", 36.0, ["silence"], 2, 0, "Wrong: 2 | 3\nand more", "Plan(7, (), 'Wrong'),")


def test_seeds_are_read_as_they_were_written(tmp_path: Path) -> None:
    report = tmp_path / "seeds.jsonl"
    seeds = [*_seeds(2), _wrong()]
    for seed in seeds:
        reports.append(report, seed)
    assert read(report) == seeds


def test_each_fault_is_counted_and_failures_are_bounded() -> None:
    text = table(_seeds(300))
    assert text.startswith(
        "300 seeds in 3 hours of virtual time, 600 runs, 900 faults (commit 0123abcd: 300): none went"
    )
    assert "300,000 records were compared, 0 were lost, 0 doubled and 0 out of order" in text
    assert "fewer than 0.999% of such seeds go wrong" in text
    assert "| log cut | 600 | 300 |" in text
    assert all(f"| {kind} | " in text for kind in KINDS)


def test_a_seed_counts_once_for_a_commit() -> None:
    assert table([*_seeds(300), *_seeds(300)]) == table(_seeds(300))


def test_a_seed_that_went_wrong_is_told_and_there_is_no_bound() -> None:
    text = table([*_seeds(2), _wrong()])
    assert "(commit 0123abcd: 2, 0123abcd+: 1): **1 went wrong**. 2,000 records of the others were compared." in text
    assert "| 7 | 0123abcd+ | Wrong: 2 \\| 3 |" in text
    assert "confidence" not in text


def test_what_is_between_the_marks_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<a>\nold\n</a>\nafter\n")
    reports.put_between("<a>", "</a>", "new", document)
    assert document.read_text() == "before\n<a>\nnew\n</a>\nafter\n"
    with pytest.raises(SystemExit, match="lacks the marks <b> and </b>"):
        reports.put_between("<b>", "</b>", "new", document)
