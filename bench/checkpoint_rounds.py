"""How long a round of checkpoints takes with many groups: ``python -m bench.checkpoint_rounds``.

Two real brokers, one topic that is copied once, groups that have committed offsets on every partition of it. Then some
of the positions move, and a round writes checkpoints and commits offsets for the groups on the target. Prints one line
of JSON a round: its seconds, what it did, and the process's highest memory so far, the preparations' included.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topics.actions import failed
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics

_TOPIC = "orders"
_RECORDS = 1000
_IN_FLIGHT = 200


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--changed", type=float, default=1.0, help="per cent of the positions that move before a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with LocalKafka(name="source") as source, LocalKafka(name="target") as target:
        flow = _flow(source, target)
        _copy(flow, source, options.partitions)
        groups = [f"group-{number:05}" for number in range(options.groups)]
        everything = [(group, partition) for group in groups for partition in range(options.partitions)]
        _move(source, everything, 500)
        _round(flow, "first, everything is new")
        _round(flow, "nothing has changed")
        wanted = max(1, round(len(everything) * options.changed / 100))
        for number in range(options.rounds):
            # Scattered over all groups, the dearer way: each of them is written to.
            stride = len(everything) // wanted
            _move(source, everything[number % stride :: stride][:wanted], 600 + number)
            _round(flow, f"{options.changed:g} % have changed, in as many groups as can be")
        for number in range(options.rounds):
            _move(source, everything[:wanted], 700 + number)
            _round(flow, f"{options.changed:g} % have changed, in as few groups as can be")


def _flow(source: LocalKafka, target: LocalKafka) -> FlowSettings:
    replicas = dict.fromkeys(
        ("internal", "status", "config", "heartbeats", "checkpoints", "offset_syncs"), 1
    )  # of the state topics
    return FlowSettings(
        FlowName("source", "target"),
        ClusterSettings.plaintext("source", source.bootstrap_servers),
        ClusterSettings.plaintext("target", target.bootstrap_servers),
        topics=(_TOPIC,),
        replication_factor=1,
        sync_topic_acls=False,
        sync_group_offsets=True,
        **{f"{name}_replication_factor": number for name, number in replicas.items()},  # type: ignore[arg-type]
    )


def _copy(flow: FlowSettings, source: LocalKafka, partitions: int) -> None:
    source.create_topic(_TOPIC, partitions)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "queue.buffering.max.messages": 1_000_000})
    for number in range(_RECORDS * partitions):
        producer.produce(_TOPIC, value=b"%d" % number, partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    assert not failed(apply_plan(flow, plan_topics(flow)))

    def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        return [copy_slot(job, task) for task in tasks]

    record = replicate(flow, RunOptions("bench"), here)
    assert record.records == _RECORDS * partitions, record.error


def _move(kafka: LocalKafka, places: Sequence[tuple[str, int]], position: int) -> None:
    by_group: dict[str, list[int]] = {}
    for group, partition in places:
        by_group.setdefault(group, []).append(partition)
    admin = kafka.admin()

    def commit(group: str) -> None:
        offsets = [TopicPartition(_TOPIC, partition, position) for partition in by_group[group]]
        deadline = time.monotonic() + 60
        while True:
            request = [ConsumerGroupTopicPartitions(group, offsets)]
            answer = admin.alter_consumer_group_offsets(request, request_timeout=30)[group].result()
            if not any(place.error for place in answer.topic_partitions):
                return
            assert time.monotonic() < deadline
            time.sleep(0.1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(commit, by_group))


def _round(flow: FlowSettings, what: str) -> None:
    begun, cpu = time.monotonic(), time.process_time()
    report = sync_checkpoints(flow, at_once=True)
    figures = {
        "round": what,
        "seconds": round(time.monotonic() - begun, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "groups": report.groups,
        "checkpoints": report.checkpoints,
        "unchanged": report.unchanged,
        "committed": report.group_positions,
    }
    assert not report.faults, report.faults
    assert not report.untranslated, report.untranslated[:3]
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    _main()
