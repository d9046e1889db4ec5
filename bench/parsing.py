"""What Airflow's parse of the DAG file costs: ``python -m bench.parsing``.

A fresh interpreter parses the file that gives each flow its DAG, first with the imports of a first parse, then again
as Airflow's DAG processor does all the time. The figures in docs/install.md are for the default number of flows.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

_DAGS = Path(__file__).resolve().parents[1] / "dags"
_PARSE = """
import json, statistics, sys, time
from airflow.dag_processing.dagbag import DagBag
import airflow.providers.standard.operators.empty
DagBag("/nonexistent", load_op_links=False)
seconds = []
for _ in range(10):
    started = time.process_time()
    bag = DagBag(sys.argv[1], load_op_links=False)
    seconds.append(time.process_time() - started)
assert not bag.import_errors, bag.import_errors
print(json.dumps({"dags": len(bag.dags), "first_parse_cpu_seconds": round(seconds[0], 3),
                  "later_parse_cpu_seconds": round(statistics.median(seconds[1:]), 3)}))
"""


def configuration(flows: int) -> str:
    """A properties file of a chain of so many flows."""
    aliases = [f"c{number}" for number in range(flows + 1)]
    lines = [f"clusters = {', '.join(aliases)}"]
    lines += [f"{alias}.bootstrap.servers = {alias}.example:9092" for alias in aliases]
    for source, target in itertools.pairwise(aliases):
        lines += [f"{source}->{target}.enabled = true", f"{source}->{target}.topics = orders.*, payments"]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--flows", default=50, show_default=True)
def main(flows: int) -> None:
    """Parse the DAG file for so many flows."""
    with tempfile.TemporaryDirectory(prefix="srm-bench-") as folder:
        path = Path(folder) / "srm.properties"
        path.write_text(configuration(flows))
        environment = {**os.environ, "SRM_CONFIG": str(path), "AIRFLOW_HOME": folder, "PYTHONPATH": str(_DAGS.parent)}
        command = [sys.executable, "-c", _PARSE, str(_DAGS / "replicate_flows.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    print("\n".join(f"{key:>28}  {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
