"""Results of seeds, and the table of them in docs/reliability.md.

make simulate SEEDS=0:100000 PROCESSES=2 REPORT=seeds.jsonl
python -m tests.simulation.seeds seeds.jsonl
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import reports
from tests.simulation.faults import KINDS

BEGIN, END = "<!-- seeds: written by python -m tests.simulation.seeds -->", "<!-- end of seeds -->"


@dataclass(frozen=True)
class Seed:
    """One seed as it was played. ``seconds``: of virtual time; ``faults``: what struck, in turn; ``records``: how many
    were equal on both sides at the end; ``plan``: the least that still goes wrong, for plans.py."""

    seed: int
    commit: str
    digest: str
    seconds: float
    faults: list[str]
    runs: int
    records: int
    wrong: str | None = None
    plan: str | None = None


def read(report: Path) -> list[Seed]:
    """The seeds of a report."""
    return [Seed(**line) for line in reports.read(report)]


def table(seeds: Sequence[Seed]) -> str:
    """What the document says of the seeds; at least one. One that the same commit has played twice counts once."""
    seeds = list({(seed.commit, seed.seed): seed for seed in seeds}.values())
    wrong = [seed for seed in seeds if seed.wrong is not None]
    good = len(seeds) - len(wrong)
    records = sum(seed.records for seed in seeds if seed.wrong is None)
    faults = Counter(fault for seed in seeds for fault in seed.faults)
    commits = Counter(seed.commit for seed in seeds)
    text = f"{len(seeds):,} seeds in {sum(seed.seconds for seed in seeds) / 3600:,.0f} hours of virtual time, "
    text += f"{sum(seed.runs for seed in seeds):,} runs, {sum(faults.values()):,} faults"
    text += f" (commit {', '.join(f'{commit}: {count:,}' for commit, count in commits.items())}): "
    if wrong:
        text += f"**{len(wrong):,} went wrong**. {records:,} records of the others were compared."
    else:
        text += f"none went wrong. {records:,} records were compared, 0 were lost, 0 doubled and 0 out of order; with "
        text += f"95 % confidence, fewer than {reports.most_that_fail(good):.3%} of such seeds go wrong."
    lines = [
        text,
        "",
        "| fault, at a random moment of virtual time | times | seeds with it |",
        "|---|---|---|",
    ]
    having = Counter(fault for seed in seeds for fault in set(seed.faults))
    lines += [f"| {kind} | {faults[kind]:,} | {having[kind]:,} |" for kind in KINDS]
    if wrong:
        lines += ["", "| seed | commit | what went wrong |", "|---|---|---|"]
        lines += [f"| {seed.seed} | {seed.commit} | {_cell(seed.wrong or '')} |" for seed in wrong]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """The first line, short enough for a table."""
    line = text.partition("\n")[0].replace("|", "\\|")
    return line if len(line) <= 200 else line[:199] + "…"


def main(paths: Iterable[str]) -> int:
    reports.put_between(BEGIN, END, table([seed for path in paths for seed in read(Path(path))]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
