"""What the tasks of one flow cost in a real Airflow: ``python -m bench.task_cost``.

Two real brokers and a LocalAirflow with one flow, whose DAG runs several times: with nothing new but its own heartbeat,
with little to do, and with so much that Spark is started. A table for each kind of run says what its tasks cost, as
medians of ``--runs`` runs; ``--packages`` adds which packages' imports cost how much, ``--output`` keeps all as JSON.

CPU-seconds are user and system time of the task's process and of those that it started (except PySpark's workers,
whose time is attributed to no process). Airflow forks that process from one of its workers:

start      Airflow's own part: from the fork to the DAG file, from there to the task's ``execute``, and its end
imports    of modules, by the DAG file and by the task
DAG        the rest of the DAG file: reading the configuration, building the DAG
work       the rest of ``execute``
clients    Kafka clients that were made (librdkafka's), and connections of Python's own sockets

*Airflow itself* is what its API server, scheduler, the scheduler's workers, DAG processor and triggerer used during a
run, beyond what they use while nothing runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench.errors import BenchError
from bench.task_probe import VARIABLE
from srm_common.testing import LocalKafka
from srm_common.testing.local_airflow import COMPONENTS, LocalAirflow

_ROOT = Path(__file__).resolve().parents[1]
_DAG_ID = "srm.a.b"
_TOPICS, _PARTITIONS, _GROUP = 6, 3, "readers"
#: Bytes that are new to each topic, by the kind of run.
KINDS: Mapping[str, int] = {"idle": 0, "little": 10_000, "spark": 500_000}
_TASKS = ("refresh_topics", "replicate", "sync_checkpoints", "emit_heartbeat", "report_lag")
#: Of LocalExecutor, which supervise the tasks.
_WORKERS = "workers"
_COLUMNS = ("cpu", "start", "imports", "dag", "work", "wall")
_CONFIGURATION = """\
clusters = a, b
a.bootstrap.servers = {a}
b.bootstrap.servers = {b}
a->b.enabled = true
a->b.topics = topic.*
schedule.interval.seconds = 86400
emit.checkpoints.interval.seconds = 0
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
"""
_DAG_FILE = """\
from bench.task_probe import probe

from airflow.sdk import get_parsing_context

one, dag_id = probe(), get_parsing_context().dag_id
if one is not None and dag_id is not None:
    one.is_task(dag_id)
    one.mark("file")

from srm_common.airflow_bridge import flow_dags

globals().update(flow_dags())
if one is not None and dag_id is not None:
    one.mark("dag")
    for task in globals()[dag_id].tasks:
        task._pre_execute_hook, task._post_execute_hook = one.begin, one.end
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each kind, beside one that is not counted")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--no-preload", action="store_true", help="SRM_PRELOAD=0: tasks import all by themselves")
    parser.add_argument("--packages", action="store_true", help="CPU of imports by package")
    parser.add_argument("--output", type=Path, help="a file for all figures")
    options = parser.parse_args(arguments)
    console, found = Console(width=120), {}
    for kind, runs in measure(options.kinds, options.runs, preload=not options.no_preload):
        found[kind] = runs
        console.print(tasks_table(kind, runs))
        if options.packages:
            console.print(packages_table(runs))
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


def measure(kinds: Iterable[str], runs: int, *, preload: bool = True) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The runs of each kind: their tasks by id, ``wall`` seconds and ``besides``. Raises BenchError when one fails."""
    with tempfile.TemporaryDirectory(prefix="srm-bench-") as temporary:
        folder = Path(temporary)
        with (
            LocalKafka(name="a") as source,
            LocalKafka(name="b") as target,
            _airflow(folder, source, target, preload) as airflow,
        ):
            for number in range(_TOPICS):
                source.create_topic(_topic(number), _PARTITIONS)
            _add_to(source, KINDS["little"])
            airflow.wait_for_dag(_DAG_ID)
            airflow.unpause(_DAG_ID)
            _settle(airflow)
            idle = _idle_cores(airflow)
            for kind in kinds:
                measured = []
                for _ in range(runs + 1):
                    _add_to(source, KINDS[kind])
                    measured.append(_run(airflow, folder, idle))
                yield kind, measured[1:]


def _airflow(folder: Path, source: LocalKafka, target: LocalKafka, preload: bool) -> LocalAirflow:
    dags, site, configuration = folder / "dags", folder / "site", folder / "srm.properties"
    dags.mkdir()
    site.mkdir()
    (dags / "flows.py").write_text(_DAG_FILE)
    (site / "sitecustomize.py").write_text("from bench.task_probe import install\n\ninstall()\n")
    configuration.write_text(_CONFIGURATION.format(a=source.bootstrap_servers, b=target.bootstrap_servers))
    environment = {
        "SRM_CONFIG": str(configuration),
        "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "PYTHONPATH": f"{site}:{_ROOT}",
        VARIABLE: str(folder / "tasks.jsonl"),
        "SRM_PRELOAD": "1" if preload else "0",  # as srm_common.airflow_bridge.preload has it, which imports Airflow
    }
    return LocalAirflow(
        dags_folder=dags, directory=folder / "airflow", environment=environment, refresh_seconds=60, idle_seconds=1
    )


def _settle(airflow: LocalAirflow) -> None:
    """Until the run that the schedule starts has ended, which makes the topics."""
    deadline = time.monotonic() + 600
    while not airflow.runs(_DAG_ID):
        if time.monotonic() > deadline:
            raise BenchError(f"the schedule starts no run of {_DAG_ID}")
        time.sleep(0.5)
    _must_succeed(airflow, airflow.runs(_DAG_ID)[0]["dag_run_id"])


def _run(airflow: LocalAirflow, folder: Path, idle_cores: Mapping[str, float]) -> dict[str, Any]:
    (folder / "tasks.jsonl").unlink(missing_ok=True)
    before, began = _components_cpu(airflow), time.monotonic()
    run_id = airflow.trigger(_DAG_ID)
    _must_succeed(airflow, run_id)
    seconds = time.monotonic() - began
    besides = {
        component: used - before[component] - idle_cores[component] * seconds
        for component, used in _components_cpu(airflow).items()
    }
    lines = [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
    tasks = {line["task_id"]: _figures(line) for line in lines if line.get("run_id") == run_id}
    return {"tasks": tasks, "wall": seconds, "besides": besides}


def _must_succeed(airflow: LocalAirflow, run_id: str) -> None:
    if airflow.wait_for_run(_DAG_ID, run_id) != "success":
        raise BenchError(f"{run_id} failed: {airflow.task_states(_DAG_ID, run_id)}")


def _figures(line: Mapping[str, Any]) -> dict[str, Any]:
    """Of one task: CPU-seconds by part, wall seconds, peak bytes, clients, packages."""
    marks = line["marks"]

    def between(first: str, second: str, what: str = "cpu") -> float:
        return float(marks[second][what] - marks[first][what])

    dag_imports, work_imports = between("file", "dag", "imports"), between("begun", "done", "imports")
    return {
        "cpu": marks["end"]["cpu"],
        "start": marks["file"]["cpu"] + between("dag", "begun") + between("done", "end"),
        "imports": dag_imports + work_imports,
        "dag": between("file", "dag") - dag_imports,
        "work": between("begun", "done") - work_imports,
        "wall": marks["end"]["wall"],
        "peak_bytes": line["peak_bytes"],
        "clients": line["clients"],
        "packages": line["packages"],
        "marks": marks,
    }


def _components_cpu(airflow: LocalAirflow) -> dict[str, float]:
    """CPU-seconds of Airflow's own processes so far, by component. Children that are gone count for the DAG processor
    alone, whose they are part of: those of the scheduler's workers are the tasks."""
    roots = {airflow.process(component).pid: component for component in COMPONENTS}
    found = dict.fromkeys((*COMPONENTS, _WORKERS), 0.0)
    for process in airflow.descendants():
        try:
            times = process.cpu_times()
            family = [process.pid, *(parent.pid for parent in process.parents())]
        except psutil.NoSuchProcess:
            continue
        component = next(roots[pid] for pid in family if pid in roots)
        used = times.user + times.system
        if component == "dag-processor":
            used += times.children_user + times.children_system
        found[_WORKERS if component == "scheduler" and process.pid not in roots else component] += used
    return found


def _idle_cores(airflow: LocalAirflow, seconds: float = 30.0) -> dict[str, float]:
    before, began = _components_cpu(airflow), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {component: (used - before[component]) / took for component, used in _components_cpu(airflow).items()}


def _add_to(kafka: LocalKafka, size: int) -> None:
    """So many bytes to each topic, and a group that has read them."""
    if not size:
        return
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for number in range(_TOPICS):
        for record in range(size // 1000):
            producer.produce(_topic(number), bytes(1000), partition=record % _PARTITIONS)
        producer.flush()
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": _GROUP, "log_level": 0})
    offsets = []
    for number in range(_TOPICS):
        for partition in range(_PARTITIONS):
            _, end = consumer.get_watermark_offsets(TopicPartition(_topic(number), partition), timeout=60)
            offsets.append(TopicPartition(_topic(number), partition, end))
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _topic(number: int) -> str:
    return f"topic-{number}"


# ---- tables


def tasks_table(kind: str, runs: Sequence[Mapping[str, Any]]) -> Table:
    """Medians of the runs, a row for each task and one for the run."""
    table = Table(title=f"{kind}: CPU-seconds, medians of {len(runs)} runs", title_justify="left")
    table.add_column("task")
    for name in (*_COLUMNS[:-1], "wall, s", "peak, MB", "clients"):
        table.add_column("DAG" if name == "dag" else name, justify="right")
    for task in _TASKS:
        ones = [run["tasks"][task] for run in runs if task in run["tasks"]]
        if not ones:
            continue
        cells = [f"{statistics.median(one[column] for one in ones):.2f}" for column in _COLUMNS]
        peak = statistics.median(one["peak_bytes"] for one in ones) / 1e6
        clients = ones[-1]["clients"]
        named = " + ".join(f"{clients[name]} {name}" for name in sorted(clients))
        table.add_row(task, *cells, f"{peak:.0f}", named)
    totals = [f"{statistics.median(_total(run, column) for run in runs):.2f}" for column in _COLUMNS[:-1]]
    table.add_row("all tasks", *totals, f"{statistics.median(run['wall'] for run in runs):.2f}", "", "")
    besides = statistics.median(sum(run["besides"].values()) for run in runs)
    parts = {name: statistics.median(run["besides"][name] for run in runs) for name in runs[0]["besides"]}
    table.add_row(
        "Airflow besides", f"{besides:.2f}", *[""] * 6, ", ".join(f"{n} {cpu:.2f}" for n, cpu in parts.items())
    )
    return table


def _total(run: Mapping[str, Any], column: str) -> float:
    return float(sum(task[column] for task in run["tasks"].values()))


def packages_table(runs: Sequence[Mapping[str, Any]], rows: int = 12) -> Table:
    """What the imports of each top-level package cost by themselves, in Airflow's part too."""
    table = Table(title="imports: CPU-seconds by package, last run", title_justify="left")
    table.add_column("package")
    tasks = runs[-1]["tasks"]
    names = [task for task in _TASKS if task in tasks]
    for name in names:
        table.add_column(name, justify="right")
    packages = {package for task in tasks.values() for package in task["packages"]}
    costs = {package: [tasks[name]["packages"].get(package, 0.0) for name in names] for package in packages}
    for package in sorted(packages, key=lambda one: -sum(costs[one]))[:rows]:
        table.add_row(package, *(f"{cost:.3f}" for cost in costs[package]))
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
