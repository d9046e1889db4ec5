"""Results of rounds of random faults, and the table of them in docs/reliability.md.

SOAK_REPORT=rounds.jsonl SOAK_ROUNDS=500 scripts/test.sh faults -- -m soak -k several_faults --dist load
python -m tests.faults.rounds rounds.jsonl
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.faults.random_faults import KINDS, OF_ONE_NODE, OF_THREE_NODES

DOCUMENT = Path(__file__).parents[2] / "docs/reliability.md"
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
        """Add a line of JSON, whole even where several processes write."""
        line = (json.dumps(asdict(self)) + "\n").encode()
        descriptor = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def read(report: Path) -> list[Round]:
    """The rounds of a report."""
    return [Round(**json.loads(line)) for line in report.read_text().splitlines()]


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
        # None of n failed: with 95 % confidence fewer than 3 / n do ("rule of three").
        most = -math.log(0.05) / len(good)
        text += f"none failed. {records:,} records were compared, 0 were lost, 0 doubled and 0 out of order; with 95 % "
        text += f"confidence, fewer than {most:.2%} of such rounds fail."
    lines = [
        text,
        "",
        "| fault, at random moments while records are written and copied | times |",
        "|---|---|",
        *(f"| {kind} | {faults[kind]:,} |" for kind in [*KINDS, *OF_ONE_NODE, *OF_THREE_NODES]),
    ]
    return "\n".join(lines)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()))


def main(reports: Iterable[str]) -> int:
    rounds = [one for report in reports for one in read(Path(report))]
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        print(f"{DOCUMENT} has no marks for the rounds", file=sys.stderr)
        return 1
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table(rounds)}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
