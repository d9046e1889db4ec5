"""Results of rounds of random faults, and the table of them in docs/reliability.md.

SOAK_REPORT=rounds.jsonl SOAK_ROUNDS=500 scripts/test.sh faults -- -m soak -k several_faults --dist load
python -m tests.faults.rounds rounds.jsonl
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import reports
from tests.faults.random_faults import ALL_KINDS

BEGIN, END = "<!-- rounds: written by python -m tests.faults.rounds -->", "<!-- end of rounds -->"


@dataclass
class Round:
    """One round. ``records``: how many were equal on both sides at its end; None if it failed."""

    seed: int
    stage: str
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    records: int | None = None

    def append_to(self, report: Path) -> None:
        """Add a line to a report."""
        reports.append(report, self)


def read(report: Path) -> list[Round]:
    """The rounds of a report."""
    return [Round(**line) for line in reports.read(report)]


def table(rounds: Sequence[Round]) -> str:
    """What the document says of the rounds; at least one."""
    good = [one for one in rounds if one.records is not None]
    failed = len(rounds) - len(good)
    records = sum(one.records or 0 for one in good)
    hours = sum(one.seconds for one in rounds) / 3600
    stages = Counter(one.stage for one in rounds)
    faults = Counter(fault for one in rounds for fault in one.faults)
    text = f"{len(rounds):,} rounds in {hours:.1f} hours ({_listed(stages)}) with {sum(faults.values()):,} faults: "
    if failed:
        text += f"**{failed} failed**. {records:,} records of the others were compared."
    else:
        text += f"none failed. {records:,} records were compared, 0 were lost, 0 doubled and 0 out of order; with 95 % "
        text += f"confidence, fewer than {reports.most_that_fail(len(good)):.2%} of such rounds fail."
    lines = [
        text,
        "",
        "| fault, at random moments while records are written and copied | times |",
        "|---|---|",
        *(f"| {kind} | {faults[kind]:,} |" for kind in ALL_KINDS),
    ]
    return "\n".join(lines)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()))


def main(paths: Iterable[str]) -> int:
    rounds = [one for path in paths for one in read(Path(path))]
    reports.put_between(BEGIN, END, table(rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
