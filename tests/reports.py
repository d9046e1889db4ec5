"""Reports of long runs: a line of JSON each, and the tables that documents have of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RELIABILITY = Path(__file__).parents[1] / "docs/reliability.md"


def append(report: Path, one: DataclassInstance) -> None:
    """Add a line of JSON, whole even where several processes write."""
    line = (json.dumps(asdict(one)) + "\n").encode()
    descriptor = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(report: Path) -> list[dict[str, Any]]:
    """The lines of a report."""
    return [json.loads(line) for line in report.read_text().splitlines()]


def commit() -> str:
    """What is played: the commit of this folder, with a + where files differ from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--exclude=*", "--abbrev=8", "--dirty=+"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode:
        raise SystemExit(f"a report names the commit that was played: {said.stderr.strip()}")
    return said.stdout.strip()


def most_that_fail(good: int) -> float:
    """The share that may fail where none of so many did, with 95 % confidence ("rule of three")."""
    return -math.log(0.05) / good


def put_between(begin: str, end: str, text: str, document: Path = RELIABILITY) -> None:
    """Replace what a document has between two marks. Ends the process where it has none."""
    before, _, rest = document.read_text().partition(begin)
    _, _, after = rest.partition(end)
    if not rest or not after:
        raise SystemExit(f"{document} lacks the marks {begin} and {end}: put them where the table belongs")
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}")
