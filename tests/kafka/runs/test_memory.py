"""The memory of a slot does not depend on the lag."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from srm_common.domain.runs.copying import CopyRange, SlotResult, SlotTask
from srm_common.replication.driver.ownership import Ownership
from srm_common.testing import LocalKafka
from tests.kafka.engine import Engine
from tests.kafka.records import writer

FETCH_BYTES = 2 << 20
RECORD = bytes(range(256)) * 200
LAG_RECORDS = 1500

_COPY = """
import pickle, sys
from srm_common.replication.slots.slot import copy_slot
job, task = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(copy_slot(job, task)))
"""


def _copy(engine: Engine, topic: str, start: int, end: int) -> SlotResult:
    """One slot in a process of its own, as Spark runs it."""
    with Ownership.take(engine.flow, 1, 1) as owner:
        job = engine.job(fetch_bytes=FETCH_BYTES, fetch_partition_bytes=FETCH_BYTES)
        task = SlotTask(0, owner.identities[0], (CopyRange(topic, engine.copy_of(topic), 0, start, end),))
        done = subprocess.run(
            [sys.executable, "-c", _COPY],
            input=pickle.dumps((job, task)),
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
            timeout=300,
            check=True,
        )
    result: SlotResult = pickle.loads(done.stdout)
    assert [range_result.error for range_result in result.ranges] == [None]
    return result


def test_peak_memory_is_two_fetches_whatever_the_lag(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, "memory")
    engine.create(name)
    producer = writer(source_kafka)
    for number in range(LAG_RECORDS):
        producer.produce(name, RECORD, partition=0)
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    (end,) = engine.ends(name).values()
    small = _copy(engine, name, 0, 10)
    large = _copy(engine, name, 10, end)
    copied = sum(result.copied.bytes for result in large.ranges)
    assert copied > 30 * FETCH_BYTES
    # Buffers are touched as they are filled: the small copy shows the process without them.
    assert large.peak_rss_bytes - small.peak_rss_bytes < 2 * FETCH_BYTES + (8 << 20)
