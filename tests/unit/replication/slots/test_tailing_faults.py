"""Slots that tail while requests fail: they end, and both sides are equal. Each seed is a plan of faults."""

from __future__ import annotations

import random
import time

import pytest

from srm_common.kafka.client.protocol import codes
from srm_common.testing import FakeCluster
from tests.kafka.engine import Background, Engine

_ROUNDS = 10
_WRITES = 25
_COORDINATOR = (14, 15, 16, codes.CONCURRENT_TRANSACTIONS)
_LEADER = (3, 5, 6, 7, 9, 19)
_CHUNK = (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, codes.INVALID_PRODUCER_EPOCH, codes.UNKNOWN_PRODUCER_ID)
#: What is refused at the target, with the codes that brokers have for it; a slot recovers from all of them.
_REFUSED = {
    "Produce": (*_LEADER, *_CHUNK),
    "EndTxn": _COORDINATOR,
    "AddPartitionsToTxn": _COORDINATOR,
    "InitProducerId": _COORDINATOR,
}


@pytest.mark.parametrize("seed", range(_ROUNDS))
def test_a_slot_ends_and_both_sides_are_equal_whatever_was_refused(seed: int) -> None:
    draw = random.Random(seed)
    version, name = draw.choice((0, 2, 2)), f"faults{seed}"
    with (
        FakeCluster(draw.choice((1, 2)), name="source") as source,
        FakeCluster(draw.choice((1, 2)), features={"transaction.version": version}, name="target") as target,
    ):
        engine = Engine(source, target, name)
        engine.create(name, 3)
        # Some partition stays idle.
        busy = draw.sample(range(3), draw.choice((1, 2)))
        for _ in range(4):
            _plan(draw, source, target, engine.copy_of(name))
        run = Background(
            engine,
            name,
            tail_until=time.time() + 1,
            chunk_bytes=draw.choice((2000, 1 << 20)),
            fetch_partition_bytes=draw.choice((1024, 1 << 20)),
            linger_seconds=draw.choice((0.01, 0.1)),
            fetch_max_wait_ms=50,
        )
        for number in range(_WRITES):
            records = [(b"k%d" % number, bytes(draw.randrange(300))) for _ in range(draw.randrange(1, 20))]
            source.write(name, records, draw.choice(busy))
            time.sleep(0.03)
        outcome = run.result()
        assert not outcome.errors
        engine.copy(name)
        assert engine.check(name) == sum(len(source.records(name, partition)) for partition in range(3))


def _plan(draw: random.Random, source: FakeCluster, target: FakeCluster, copy: str) -> None:
    """One fault, after some answers."""
    times = draw.randrange(1, 3)
    if draw.random() < 0.25:
        code, at = draw.choice(_LEADER), source.after(draw.randrange(1, 12), "Fetch")
        if draw.random() < 0.5:
            at.do(lambda: source.refuse("Fetch", code, times=times))
        else:
            at.do(lambda: source.drop_answer("Fetch"))
        return
    api = draw.choice(("Produce", "Produce", "Produce", *_REFUSED))
    code, at = draw.choice(_REFUSED[api]), target.after(draw.randrange(1, 16), "Produce")
    when = copy if api == "Produce" and draw.random() < 0.5 else None
    at.do(lambda: target.refuse(api, code, when=when, times=times))
