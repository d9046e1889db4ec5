from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench
from bench.task_cost import _figures
from bench.task_probe import VARIABLE

MARKS = ("file", "dag", "begun", "done", "end")
ADDED = st.lists(st.floats(0, 10), min_size=len(MARKS), max_size=len(MARKS))


@given(ADDED, ADDED)
def test_the_parts_of_a_task_are_the_whole(cpu: list[float], imports: list[float]) -> None:
    spent, imported = list(accumulate(cpu)), list(accumulate(imports))
    marks = {
        name: {"cpu": spent[number] + imported[number], "wall": float(number), "imports": imported[number]}
        for number, name in enumerate(MARKS)
    }
    figures = _figures({"marks": marks, "peak_bytes": 1, "clients": {}, "packages": {}})
    assert sum(figures[part] for part in ("start", "imports", "dag", "work")) == pytest.approx(figures["cpu"])


_TASK = """
import os
from bench.task_probe import install, probe
install()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    import sys
    one = probe()
    one.is_task("d")
    one.mark("file")
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    import kafka
    one.mark("dag")
    one.begin({"ti": type("Instance", (), {"task_id": "t"}), "run_id": "r"})
    Producer({"log_level": 0})
    AdminClient({"log_level": 0})
    sum(range(2_000_000))
    one.end({})
    sys.exit(0)
"""


def test_a_forked_process_tells_what_it_did(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    environment = {**os.environ, VARIABLE: str(file), "PYTHONPATH": str(Path(bench.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", _TASK], env=environment, check=True)
    (line,) = map(json.loads, file.read_text().splitlines())
    assert (line["dag_id"], line["task_id"], line["run_id"]) == ("d", "t", "r")
    assert line["clients"] == {"Producer": 1, "AdminClient": 1}
    assert line["packages"]["kafka"] > 0
    marks = line["marks"]
    assert marks["begun"]["imports"] > marks["file"]["imports"]
    assert [marks[mark]["cpu"] for mark in MARKS] == sorted(marks[mark]["cpu"] for mark in MARKS)
    assert marks["done"]["cpu"] > marks["begun"]["cpu"]
