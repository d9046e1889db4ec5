"""A source whose answers arrive slowly: they are waited for, and less is asked for at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.links import fetch_sizes
from srm_common.kafka.client.links.fetch_sizes import FetchSizes
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.replication.slots import slot_watch
from srm_common.replication.slots.slot_watch import SlotWatch, Stuck
from srm_common.testing import FakeCluster
from tests.kafka.engine import Engine
from tests.kafka.records import mixed_records, produce
from tests.unit.replication.driver.simulated_cluster import JOB

SHARE = 16 << 20


def watched(monkeypatch: pytest.MonkeyPatch, arriving: Callable[[Signal], int]) -> None:
    """A slot that waits for a signal, under a watch without patience."""
    monkeypatch.setattr(slot_watch, "quiet_seconds", lambda job: 1e-9)
    loop = EventLoop()
    signal = Signal(loop)
    watch = SlotWatch("slot 0", JOB, signal, loop, lambda: 0, lambda: arriving(signal), lambda: "an answer")

    async def slot() -> None:
        watch.start()
        await signal.wait()
        watch.end()

    try:
        loop.run(slot)
    finally:
        loop.close()


def test_a_slot_that_receives_nothing_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stuck, match="waited for: an answer"):
        watched(monkeypatch, lambda signal: 0)


def test_a_slot_that_receives_part_of_an_answer_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count()

    def arriving(signal: Signal) -> int:
        look = next(looks)
        if look == 20:
            signal.set()
        return look

    watched(monkeypatch, arriving)
    assert next(looks) > 20


@pytest.fixture
def engine(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> Engine:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(50), batch_size=500)
    return engine


def test_the_watch_looks_at_brokers_that_owe_a_fetch(
    engine: Engine, source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[tuple[Any, ...]] = []
    heard_bytes = FrameConnectionManager.heard_bytes

    def noted(manager: FrameConnectionManager, nodes: Iterable[Any] | None = None) -> int:
        looked_at.append(tuple(nodes or ()))
        return heard_bytes(manager, nodes)

    monkeypatch.setattr(slot_watch, "_EVERY_SECONDS", 0.001)
    with source_kafka.delay(0.2, "Fetch", times=1):
        monkeypatch.setattr(FrameConnectionManager, "heard_bytes", noted)
        assert engine.copy(name).records == 50
    # Those who ask whether other brokers are silent look at one that was asked, too, but not while a slot copies.
    assert looked_at.count((1,)) > 5


def test_a_slow_link_is_asked_for_less_and_a_quick_one_for_all_again() -> None:
    sizes = FetchSizes()
    assert sizes.of(1, SHARE) == SHARE
    sizes.answered(1, SHARE, 11.0)
    sizes.answered(1, SHARE, 11.0)
    assert (sizes.of(1, SHARE), sizes.of(2, SHARE)) == (SHARE // 4, SHARE)
    sizes.answered(1, SHARE, 5.0)
    assert sizes.of(1, SHARE) == SHARE // 4
    # More brokers have a smaller share each.
    assert sizes.of(1, SHARE // 8) == SHARE // 8
    for _ in range(10):
        sizes.answered(1, SHARE, 0.1)
    assert sizes.of(1, SHARE) == SHARE
    for _ in range(30):
        sizes.answered(1, SHARE, 11.0)
    assert sizes.of(1, SHARE) == 64 << 10
    assert sizes.of(1, 16 << 10) == 16 << 10


def test_fetches_ask_for_what_the_link_carries(
    engine: Engine, source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sizes, "_SLOW_SECONDS", 0.0)
    source_kafka.forget_requests()
    assert engine.copy(name, fetch_bytes=4 << 20, fetch_partition_bytes=500).records == 50
    asked = [request.max_bytes for request in source_kafka.asked("Fetch")]
    assert asked[:3] == [4 << 20, 2 << 20, 1 << 20]


def test_the_next_pass_asks_for_what_the_link_has_carried(
    engine: Engine, source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over such a link a pass ends after one answer of each broker."""
    monkeypatch.setattr(fetch_sizes, "_SLOW_SECONDS", 0.0)
    asked: list[int] = []
    with LinkPool(one_loop=True) as pool:
        for _ in range(2):
            source_kafka.forget_requests()
            assert engine.copy(name, pool=pool, fetch_bytes=4 << 20, starts={(name, 0): 0}).records == 50
            asked += [request.max_bytes for request in source_kafka.asked("Fetch")][:1]
            # Whether the connections were fit to be kept or not.
            pool.close()
    assert asked == [4 << 20, 2 << 20]
