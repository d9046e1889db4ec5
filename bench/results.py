"""The results file: every workload's newest figures, each with the date they were taken, the machine and versions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.workloads import NAMES

LATEST = Path(__file__).parent / "results" / "latest.json"


def read(path: Path) -> dict[str, Any]:
    """What is there; an empty result when there is none. Raises BenchError when the file is no result."""
    if not path.exists():
        return {"workloads": {}}
    try:
        loads = json.loads(path.read_text())
    except json.JSONDecodeError as failure:
        raise BenchError(f"{path} is not JSON ({failure}); move it away") from failure
    if not isinstance(loads, dict) or not isinstance(loads.get("workloads"), dict):
        raise BenchError(f"{path} has no 'workloads'; move it away")
    return loads


def merged(previous: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """``entry`` replaces what was taken of the workload before; the others stay as they were."""
    workloads = {**previous["workloads"], name: entry}
    return {"date": entry["date"], "workloads": {name: workloads[name] for name in NAMES if name in workloads}}


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Replaces the file at once, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(result, indent=2) + "\n")
    os.replace(scratch, path)
