"""What many flows cost when they run by their schedule all the time: ``python -m bench.many_flows``.

A mesh of as few clusters as have so many pairs (five for 20 flows, a broker each), and a flow for each pair, with
topics and a consumer group of its own to which records come steadily. First one MirrorMaker 2 copies all of them, then
a real Airflow (LocalAirflow, LocalExecutor) does, with a run of each flow every ``--period`` seconds. Both are given
time to start; then CPU and memory are measured for ``--minutes``. Airflow is measured without flows as well, so that
its own share can be distinguished from that of the flows.

CPU is user and system time of whole process trees (except PySpark's workers, whose time is attributed to no process),
memory the sum of proportional set sizes; those of the brokers are left out. Both sides copy exactly once and write
heartbeats, checkpoints and offset syncs by their defaults.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench import results
from bench.errors import BenchError
from bench.machine import machine, now, versions
from bench.process_tree import parse_memory, parse_stat
from srm_common.testing import LocalKafka, LocalMirrorMaker, ReservedPort
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION
from srm_common.testing.local_airflow import LocalAirflow

_ROOT = Path(__file__).resolve().parents[1]
OUTPUT = results.LATEST.with_name("many_flows.json")
_TOPICS, _PARTITIONS, _RECORD_BYTES = 3, 2, 500
_START_SECONDS = 1800.0
_LOOK_SECONDS = 5.0
_REPLICATION = [
    f"{name}replication.factor = 1"
    for name in ("", "offset.storage.", "status.storage.", "config.storage.", "checkpoints.topic.", "heartbeats.topic.")
]
#: Aliases of source and target.
Pair = tuple[str, str]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flows", type=int, default=20)
    parser.add_argument("--period", type=int, default=60, help="seconds between two runs of a flow")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long each side is measured")
    parser.add_argument("--rate", type=int, default=10, help="records a second for each flow")
    parser.add_argument("--parallelism", type=int, default=4, help="tasks that Airflow runs at once")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="a JSON file for the figures")
    options = parser.parse_args(arguments)
    found = measure(options)
    Console(width=110).print(table(found))
    results.write(
        options.output, {"date": now(), "machine": machine(), "versions": versions(DEFAULT_KAFKA_VERSION), **found}
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Both sides on the same brokers, one after the other. Raises BenchError when a side does not copy."""
    flows = pairs(options.flows)
    with tempfile.TemporaryDirectory(prefix="srm-bench-") as temporary:
        folder = Path(temporary)
        with _clusters(flows, options.rate) as clusters:
            print(f"MirrorMaker 2 with {len(flows)} flows", flush=True)
            mirror_maker = _mirror_maker(folder, clusters, flows, options)
        # New ones, since there are copies of the same names now.
        with _clusters(flows, options.rate) as clusters:
            print(f"Airflow with {len(flows)} flows, a run of each every {options.period} s", flush=True)
            airflow = _airflow(folder, clusters, flows, options)
    names = ("flows", "period", "minutes", "rate", "parallelism")
    return {**{name: getattr(options, name) for name in names}, "mm2": mirror_maker, "srm": airflow}


def pairs(count: int) -> list[Pair]:
    """So many pairs of as few clusters as possible, source and target."""
    clusters = next(number for number in itertools.count(2) if number * (number - 1) >= count)
    return list(itertools.permutations([f"c{number}" for number in range(1, clusters + 1)], 2))[:count]


def _topics(pair: Pair) -> list[str]:
    return [f"to-{pair[1]}-{number}" for number in range(_TOPICS)]


def _group(pair: Pair) -> str:
    return f"to-{pair[1]}-readers"


def _configuration(clusters: Mapping[str, LocalKafka], flows: Sequence[Pair]) -> list[str]:
    """The settings of both sides, as lines of properties."""
    lines = [f"clusters = {', '.join(clusters)}", *_REPLICATION]
    lines += [f"{alias}.bootstrap.servers = {kafka.bootstrap_servers}" for alias, kafka in clusters.items()]
    for pair in flows:
        arrow = "->".join(pair)
        lines += [f"{arrow}.enabled = true", f"{arrow}.topics = to-{pair[1]}-.*", f"{arrow}.groups = {_group(pair)}"]
    return lines


# ---- load


@contextmanager
def _clusters(flows: Sequence[Pair], rate: int) -> Iterator[Mapping[str, LocalKafka]]:
    """Brokers by alias. Records come to each flow's topics, and its group follows, as long as the block lasts."""
    ended = threading.Event()
    with ExitStack() as stack:
        clusters = {alias: stack.enter_context(LocalKafka(name=alias)) for alias in sorted({*sum(flows, ())})}
        for pair in flows:
            for topic in _topics(pair):
                clusters[pair[0]].create_topic(topic, _PARTITIONS)
        writers = [
            threading.Thread(target=_write, args=(kafka, [pair for pair in flows if pair[0] == alias], rate, ended))
            for alias, kafka in clusters.items()
        ]
        for writer in writers:
            writer.start()
        try:
            yield clusters
        finally:
            ended.set()
            for writer in writers:
                writer.join()


def _write(kafka: LocalKafka, flows: Sequence[Pair], rate: int, ended: threading.Event) -> None:
    servers = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
    producer = Producer({**servers, "linger.ms": 50, "compression.type": "lz4"})
    groups = {pair: Consumer({**servers, "group.id": _group(pair)}) for pair in flows}
    written = {(topic, one): 0 for pair in flows for topic in _topics(pair) for one in range(_PARTITIONS)}
    tick = 0
    while not ended.wait(1.0):
        for pair in flows:
            for record in range(rate):
                topic, partition = _topics(pair)[record % _TOPICS], record // _TOPICS % _PARTITIONS
                producer.produce(topic, bytes(_RECORD_BYTES), partition=partition)
                written[topic, partition] += 1
        producer.flush()
        tick += 1
        if tick % 10 == 0:
            for pair, group in groups.items():
                topics = _topics(pair)
                ends = [TopicPartition(topic, one, end) for (topic, one), end in written.items() if topic in topics]
                group.commit(offsets=ends, asynchronous=False)
    for group in groups.values():
        group.close()


# ---- MirrorMaker 2


def _mirror_maker(
    folder: Path, clusters: Mapping[str, LocalKafka], flows: Sequence[Pair], options: argparse.Namespace
) -> dict[str, Any]:
    port = ReservedPort()
    properties = dict(line.split(" = ") for line in _configuration(clusters, flows))
    for pair in itertools.permutations(clusters, 2):
        if pair not in flows:
            # It starts a herder for each pair of clusters that is to have heartbeats.
            properties[f"{pair[0]}->{pair[1]}.emit.heartbeats.enabled"] = "false"
    properties |= {
        **{f"{alias}.exactly.once.source.support": "enabled" for alias in clusters},
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{port.number}",
        "offset-syncs.topic.replication.factor": "1",
    }
    maker = LocalMirrorMaker(properties, directory=folder / "mm2", heap="2g", tuned_for="throughput").start()
    try:
        started = time.monotonic()
        _wait(lambda: all(_copied(clusters[pair[1]], pair) for pair in flows), "MirrorMaker 2 to copy every flow")
        start_cpu = _cpu([maker.pid])
        figures = _watched(lambda: [maker.pid], options.minutes * 60)
        return {
            **figures,
            "start_seconds": round(time.monotonic() - started - options.minutes * 60, 1),
            "start_cpu_seconds": round(start_cpu, 1),
        }
    finally:
        maker.kill()
        port.release()


def _copied(target: LocalKafka, pair: Pair) -> bool:
    """Whether the copy of each topic has records."""
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "bench", "log_level": 0})
    try:
        known = consumer.list_topics(timeout=60).topics
        copies = [f"{pair[0]}.{topic}" for topic in _topics(pair)]
        if not all(copy in known for copy in copies):
            return False
        try:
            return all(consumer.get_watermark_offsets(TopicPartition(copy, 0), timeout=60)[1] > 0 for copy in copies)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
            return False  # the topic was created a moment ago
    finally:
        consumer.close()


# ---- Airflow


def _airflow(
    folder: Path, clusters: Mapping[str, LocalKafka], flows: Sequence[Pair], options: argparse.Namespace
) -> dict[str, Any]:
    configuration = folder / "srm.properties"
    lines = [*_configuration(clusters, flows), f"schedule.interval.seconds = {options.period}"]
    configuration.write_text("\n".join(lines) + "\n")
    dag_ids = [f"srm.{source}.{target}" for source, target in flows]
    environment = {
        "SRM_CONFIG": str(configuration),
        "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    with LocalAirflow(
        dags_folder=_ROOT / "dags",
        directory=folder / "airflow",
        environment=environment,
        refresh_seconds=30,
        idle_seconds=1,
        parallelism=options.parallelism,
    ) as airflow:
        for dag_id in dag_ids:
            airflow.wait_for_dag(dag_id)
            airflow.pause(dag_id)
        # A run goes on while its DAG is paused, but for tasks that have not begun.
        for dag_id in dag_ids:
            for run in airflow.runs(dag_id):
                _ended(airflow, dag_id, run["dag_run_id"])
        without = _watched(lambda: _pids(airflow), min(120.0, options.minutes * 60))
        unpaused = time.time()
        for dag_id in dag_ids:
            airflow.unpause(dag_id)
        _wait(lambda: all(_good(airflow, dag_id, unpaused) for dag_id in dag_ids), "a run of every flow to succeed")
        began, tasks = time.time(), _tasks_cpu(airflow)
        figures = _watched(lambda: _pids(airflow), options.minutes * 60)
        tasks = _tasks_cpu(airflow) - tasks
        runs = [run for dag_id in dag_ids for run in airflow.runs(dag_id) if _began(run) >= began]
    if not runs or any(run["state"] == "failed" for run in runs):
        raise BenchError(f"{sum(run['state'] == 'failed' for run in runs)} of {len(runs)} runs failed")
    seconds = [one for run in runs if (one := _seconds(run)) is not None]
    return {
        **figures,
        "tasks_cores": round(tasks / (options.minutes * 60), 4),
        "without_flows": without,
        "runs": len(seconds),
        "run_seconds": round(statistics.median(seconds), 1) if seconds else None,
        "period_seconds": round(options.minutes * 60 * options.flows / len(seconds), 1) if seconds else None,
        "cpu_seconds_per_run": round((figures["cores"] - without["cores"]) * options.minutes * 60 / len(seconds), 2)
        if seconds
        else None,
    }


def _ended(airflow: LocalAirflow, dag_id: str, run_id: str) -> None:
    """Frozen runs are ended, too: they would be gone on with."""
    if airflow.run_state(dag_id, run_id) not in ("success", "failed"):
        airflow.patch(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", {"state": "failed"})


def _good(airflow: LocalAirflow, dag_id: str, since: float) -> bool:
    runs = [run for run in airflow.runs(dag_id) if _began(run) >= since]
    if any(run["state"] == "failed" for run in runs):
        raise BenchError(f"a run of {dag_id} failed; see the logs in {airflow.directory}")
    return any(run["state"] == "success" for run in runs)


def _began(run: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(run["start_date"]).timestamp() if run["start_date"] else 0.0


def _seconds(run: Mapping[str, Any]) -> float | None:
    if run["state"] != "success":
        return None
    return datetime.fromisoformat(run["end_date"]).timestamp() - _began(run)


def _pids(airflow: LocalAirflow) -> list[int]:
    return [process.pid for process in airflow.descendants()]


def _tasks_cpu(airflow: LocalAirflow) -> float:
    """CPU-seconds of tasks that have ended: of the children of the scheduler's workers."""
    workers = psutil.Process(airflow.process("scheduler").pid).children()
    times = [worker.cpu_times() for worker in workers]
    return sum(one.children_user + one.children_system for one in times)


# ---- measuring


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {_START_SECONDS:.0f} s for {what}")
        time.sleep(1.0)


def _watched(pids: Callable[[], Sequence[int]], seconds: float) -> dict[str, float]:
    """``cores``: mean CPU; ``memory_mb`` and ``peak_memory_mb``, of all processes together."""
    before, began = _cpu(pids()), time.monotonic()
    memory = []
    while (left := began + seconds - time.monotonic()) > 0:
        memory.append(_memory(pids()))
        time.sleep(min(_LOOK_SECONDS, left))
    return {
        "cores": round((_cpu(pids()) - before) / (time.monotonic() - began), 4),
        "memory_mb": round(statistics.mean(memory) / 1e6),
        "peak_memory_mb": round(max(memory) / 1e6),
    }


def _cpu(pids: Sequence[int]) -> float:
    """Of processes and those of their children that have ended."""
    return _sum(pids, lambda pid: parse_stat(Path(f"/proc/{pid}/stat").read_text()))


def _memory(pids: Sequence[int]) -> float:
    return _sum(pids, lambda pid: parse_memory(Path(f"/proc/{pid}/smaps_rollup").read_text()))


def _sum(pids: Sequence[int], figure: Callable[[int], float]) -> float:
    total = 0.0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += figure(pid)
    return total


# ---- the table


def table(found: Mapping[str, Any]) -> Table:
    """Both sides: in all, and for each flow."""
    flows, mm2, srm = found["flows"], found["mm2"], found["srm"]
    without = srm["without_flows"]
    shown = Table(
        title=f"{flows} flows, {found['rate']} records/s each, {found['minutes']:g} minutes; "
        f"Airflow: a run every {found['period']} s",
        title_justify="left",
    )
    shown.add_column("")
    for name in ("MirrorMaker 2", "Airflow with flows", "Airflow alone", "for the flows"):
        shown.add_column(name, justify="right")
    for title, key, form in (
        ("CPU, cores", "cores", "{:.3f}"),
        ("memory, MB", "memory_mb", "{:,.0f}"),
        ("peak memory, MB", "peak_memory_mb", "{:,.0f}"),
    ):
        cells = (mm2[key], srm[key], without[key], srm[key] - without[key])
        shown.add_row(title, *(form.format(cell) for cell in cells))
    for title, key, form in (
        ("CPU per flow, cores", "cores", "{:.4f}"),
        ("memory per flow, MB", "memory_mb", "{:.1f}"),
    ):
        cells = (mm2[key] / flows, srm[key] / flows, None, (srm[key] - without[key]) / flows)
        shown.add_row(title, *("" if cell is None else form.format(cell) for cell in cells))
    shown.add_row("CPU of the tasks, cores", "", f"{srm['tasks_cores']:.3f}", "", "")
    shown.add_row("runs; seconds of one", "", f"{srm['runs']}; {srm['run_seconds']}", "", "")
    shown.add_row("CPU-seconds a run", "", "", "", f"{srm['cpu_seconds_per_run']}")
    return shown


if __name__ == "__main__":
    main(sys.argv[1:])
