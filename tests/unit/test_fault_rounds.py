"""What docs/reliability.md says of rounds of random faults."""

from __future__ import annotations

from pathlib import Path

from tests.faults.random_faults import ALL_KINDS, ENDS
from tests.faults.rounds import Round, read, table


def _rounds(count: int) -> list[Round]:
    return [Round(number, "three nodes", ["worker killed", ENDS[0]], 36.0, 1000) for number in range(count)]


def test_rounds_are_read_as_they_were_written(tmp_path: Path) -> None:
    report = tmp_path / "rounds.jsonl"
    rounds = [*_rounds(2), Round(7, "one node", ["driver frozen"], 1.5)]
    for one in rounds:
        one.append_to(report)
    assert read(report) == rounds


def test_each_fault_is_counted_and_failures_are_bounded() -> None:
    text = table(_rounds(300))
    assert text.startswith("300 rounds in 3.0 hours (three nodes: 300) with 600 faults: none failed. 300,000 records")
    assert "fewer than 1.00% of such rounds fail" in text
    assert "| worker killed | 300 |" in text
    assert f"| {ENDS[0]} | 300 |" in text
    assert all(f"| {kind} | " in text for kind in ALL_KINDS)


def test_a_failed_round_is_told_and_there_is_no_bound() -> None:
    text = table([*_rounds(2), Round(7, "three nodes", ["driver frozen"], 1.5)])
    assert "**1 failed**. 2,000 records of the others were compared." in text
    assert "confidence" not in text
