from __future__ import annotations

import os
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench import many_flows

FIGURES = {"cores": 0.5, "memory_mb": 900, "peak_memory_mb": 1000}
FOUND = {
    "flows": 10,
    "period": 60,
    "minutes": 10.0,
    "rate": 10,
    "parallelism": 4,
    "mm2": {"cores": 0.8, "memory_mb": 1100, "peak_memory_mb": 1200},
    "srm": {
        **FIGURES,
        "tasks_cores": 0.15,
        "without_flows": {"cores": 0.2, "memory_mb": 700, "peak_memory_mb": 710},
        "runs": 100,
        "run_seconds": 5.0,
        "cpu_seconds_per_run": 1.8,
    },
}


def test_the_table_tells_airflows_share_from_that_of_the_flows() -> None:
    out = StringIO()
    Console(file=out, width=110).print(many_flows.table(FOUND))
    rows = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in out.getvalue().splitlines() if "│" in line}
    assert [cell.strip() for cell in rows["CPU, cores"]] == ["0.800", "0.500", "0.200", "0.300"]
    assert [cell.strip() for cell in rows["CPU per flow, cores"]] == ["0.0800", "0.0500", "", "0.0300"]
    assert [cell.strip() for cell in rows["memory per flow, MB"]] == ["110.0", "90.0", "", "20.0"]


def test_a_process_that_has_ended_meanwhile_counts_nothing() -> None:
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    assert many_flows._cpu([gone]) == 0
    assert many_flows._cpu([gone, os.getpid()]) > 0
    assert many_flows._memory([os.getpid()]) > 1e6


@given(st.integers(1, 60))
def test_a_mesh_of_as_few_clusters_as_possible_has_so_many_flows(count: int) -> None:
    pairs = many_flows.pairs(count)
    assert len(set(pairs)) == count
    assert all(source != target for source, target in pairs)
    clusters = len({alias for pair in pairs for alias in pair})
    assert clusters <= 2 or (clusters - 1) * (clusters - 2) < count
