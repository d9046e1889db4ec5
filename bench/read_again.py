"""How much is read again when a source dies in a long run: ``python -m bench.read_again``.

Two real brokers, one producer at a steady rate, one group that reads everything and commits each second, and one long
run with its slots in this process. After ``--after`` seconds the source is killed by SIGKILL, and a dry run of a
failover tells how many records the group would read twice: without checkpoints while the run copies, and with them.
Prints a line of JSON for each; ``seconds`` is that number divided by the rate, ``cpu_seconds`` what this process used
while the run copied, producer and consumer included, ``load`` the machine's load average at the kill.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Consumer, Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topics.actions import failed
from srm_common.errors import SrmError
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.moving.failover import Move
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics

_TOPIC, _GROUP, _PARTITIONS = "orders", "billing", 2


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=100, help="records a second")
    parser.add_argument("--after", type=float, default=60.0, help="seconds of the run before the source is killed")
    parser.add_argument("--intervals", type=float, nargs="+", default=[0.0, 5.0], help="of checkpoints in the run")
    options = parser.parse_args()
    with LocalKafka(name="target") as target:
        for number, interval in enumerate(options.intervals):
            with LocalKafka(name="source") as source:
                flow = replace(_flow(f"s{number}", source, target), emit_checkpoints_in_runs_interval_seconds=interval)
                print(json.dumps({"interval": interval} | _kill(flow, source, options.rate, options.after)), flush=True)


def _kill(flow: FlowSettings, source: LocalKafka, rate: int, after: float) -> dict[str, object]:
    source.create_topic(_TOPIC, _PARTITIONS)
    stop = threading.Event()
    workers = [threading.Thread(target=work, args=(source, stop, rate), daemon=True) for work in (_write, _read)]
    for worker in workers:
        worker.start()
    time.sleep(3.0)
    # As the DAG's tasks do, one run before: its round of checkpoints is what is known without others.
    assert not failed(refresh_topics(flow, at_once=True).results)
    replicate(flow, RunOptions("first", max_seconds=0.0), _slots)
    sync_checkpoints(flow, at_once=True)
    run = threading.Thread(target=_long_run, args=(flow,), daemon=True)
    begun, cpu = time.monotonic(), time.process_time()
    run.start()
    time.sleep(after)
    source.kill()
    ran, used, load = time.monotonic() - begun, time.process_time() - cpu, os.getloadavg()[0]
    stop.set()
    move = Move(flow, MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, dry_run=True))
    for step in move.report.request.steps:
        result = move.run(step)
        assert not result.failed, result.render()
    run.join(120)
    again = move.report.read_again
    return {
        "ran_seconds": round(ran, 1),
        "rate": rate,
        "read_again": again.text("position"),
        "seconds": None if again.most is None else round(again.most / rate, 1),
        "cpu_seconds": round(used, 1),
        "load": round(load, 1),
    }


def _long_run(flow: FlowSettings) -> None:
    with contextlib.suppress(SrmError):  # its source dies
        replicate(flow, RunOptions("long", max_seconds=3600.0), _slots)


def _slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


def _write(kafka: LocalKafka, stop: threading.Event, rate: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, "log_level": 0})
    number = 0
    while not stop.wait(10 / rate):
        for _ in range(10):
            producer.produce(_TOPIC, b"x" * 100, partition=number % _PARTITIONS)
            number += 1
        producer.poll(0)


def _read(kafka: LocalKafka, stop: threading.Event, rate: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": _GROUP,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "log_level": 0,
        }
    )
    consumer.subscribe([_TOPIC])
    while not stop.is_set():
        consumer.consume(rate, 0.2)
    threading.Thread(target=consumer.close, daemon=True).start()


def _flow(alias: str, source: LocalKafka, target: LocalKafka) -> FlowSettings:
    return FlowSettings(
        FlowName(alias, "target"),
        ClusterSettings.plaintext(alias, source.bootstrap_servers),
        ClusterSettings.plaintext("target", target.bootstrap_servers),
        enabled=True,
        topics=(_TOPIC,),
        groups=(_GROUP,),
        replication_factor=1,
        internal_replication_factor=1,
        status_replication_factor=1,
        config_replication_factor=1,
        heartbeats_replication_factor=1,
        checkpoints_replication_factor=1,
        offset_syncs_replication_factor=1,
        emit_heartbeats=False,
        retry_timeout_seconds=5.0,
        request_timeout_ms=5000,
        admin_timeout_ms=10_000,
    )


if __name__ == "__main__":
    _main()
