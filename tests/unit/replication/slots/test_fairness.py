"""Slow targets: no partition waits until the others have nothing left."""

from __future__ import annotations

from srm_common.testing import FakeCluster
from tests.kafka.engine import Engine

_PARTITIONS = 4
#: None is so small that it is joined with its neighbours.
_BATCHES = 60


def test_a_chunk_goes_on_where_the_last_one_stopped() -> None:
    """Each chunk's time is up after one request, and the partitions have two leaders."""
    name = "fair"
    with FakeCluster(name="source") as source, FakeCluster(2, name="target") as target:
        engine = Engine(source, target, name)
        engine.create(name, _PARTITIONS)
        for partition in range(_PARTITIONS):
            for _ in range(_BATCHES):
                source.write(name, [(b"k", bytes(20_000))], partition)
        target.delay(0.1, "Produce")
        outcome = engine.copy(name, pass_seconds=3.0, chunk_seconds=0.05)
        copied = [result.copied.records for result in outcome.ranges.values()]
        assert sum(copied) < _PARTITIONS * _BATCHES
        assert min(copied) > max(copied) / 2
