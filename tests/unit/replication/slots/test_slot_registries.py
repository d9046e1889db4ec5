"""Slots whose records wait for registries: other partitions continue, and nothing is lost or copied twice."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from srm_common.domain.cluster import ClusterSettings, PemTexts, RegistrySettings
from srm_common.domain.patterns.name_filter import NameFilter, PatternList
from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.schemas.id_mapping import IdMapping
from srm_common.domain.schemas.schemas import SubjectNaming
from srm_common.domain.transforms.formats import Side
from srm_common.errors import ConfigError, TransformFailed
from srm_common.replication.slots import slot_registries as module
from srm_common.replication.slots.slot_registries import Registries, SchemasPending, SlotRegistries, slot_registries
from srm_common.testing import FakeCluster, LocalRegistry
from tests.kafka.authority import Authority
from tests.kafka.engine import Background, Engine, TailingTime, wait_for_copies

_PATIENCE_SECONDS = 120.0
VALUES = IdMapping(SubjectNaming(NameFilter.of("s", (".*",), ())), PatternList(()), PatternList((".*-mapped",)))


def framed(number: int, body: bytes = b"") -> bytes:
    return b"\0" + number.to_bytes(4) + body


def answered(ask: Callable[[], Any]) -> Any:
    """The answer, once there is one."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except SchemasPending:
            assert time.monotonic() < deadline
            time.sleep(0.01)


class Told:
    """Answers as the test says, in the thread that asks."""

    def __init__(self, tell: Callable[[int], int | None]) -> None:
        self.tell = tell
        self.asked: list[int] = []

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        self.asked.append(number)
        return self.tell(number)

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        return number == 7


def questions(tell: Callable[[int], int | None], limit_seconds: float = 600.0) -> tuple[SlotRegistries, list[Told]]:
    made: list[Told] = []

    def make() -> Registries:
        made.append(Told(tell))
        return Registries(cast(Any, None), cast(Any, made[-1]))

    return SlotRegistries(make, limit_seconds, ("a", "b")), made


def test_an_answer_comes_later_and_is_kept() -> None:
    asked, made = questions(lambda number: number + 1)
    arrived = threading.Event()
    asked.on_answer = arrived.set
    with pytest.raises(SchemasPending, match="schema id 7 of the values of orders"):
        asked.mapped(7, "orders", Side.VALUE)
    assert arrived.wait(_PATIENCE_SECONDS)
    assert [asked.mapped(7, "orders", Side.VALUE) for _ in range(2)] == [8, 8]
    assert made[0].asked == [7]
    asked.close()


def test_whether_an_id_is_the_topics_own_is_asked_in_the_thread_too() -> None:
    asked, _ = questions(lambda number: number + 1)
    assert answered(lambda: asked.is_own(7, "orders", Side.VALUE))
    assert not answered(lambda: asked.is_own(8, "orders", Side.VALUE))
    asked.close()


def test_a_fault_is_told_once_and_then_asked_for_again() -> None:
    faults = [TransformFailed("silent")]

    def tell(number: int) -> int:
        if faults:
            raise faults.pop()
        return number

    asked, made = questions(tell)
    with pytest.raises(TransformFailed, match="silent"):
        answered(lambda: asked.mapped(7, "orders", Side.VALUE))
    assert answered(lambda: asked.mapped(7, "orders", Side.VALUE)) == 7
    assert len(made[0].asked) == 2
    asked.close()


def test_what_hangs_is_given_up_and_the_next_question_is_asked_by_another_thread() -> None:
    released = threading.Event()

    def tell(number: int) -> int:
        if number == 1:
            released.wait(_PATIENCE_SECONDS)
        return number

    asked, made = questions(tell, limit_seconds=0.05)
    try:
        with pytest.raises(TransformFailed, match=r"schema id 1 of the keys of orders: .* a and b have not answered"):
            answered(lambda: asked.mapped(1, "orders", Side.KEY))
        # However slow the machine is.
        asked._limit = 600.0
        assert answered(lambda: asked.mapped(2, "orders", Side.KEY)) == 2
        assert [told.asked for told in made] == [[1], [2]]
    finally:
        released.set()
        asked.close()


def test_what_waited_behind_a_hanging_question_does_not_take_the_next_thread_with_it() -> None:
    released, reached = threading.Event(), threading.Event()

    def tell(number: int) -> int:
        if number == 1:
            released.wait(_PATIENCE_SECONDS)
        if number == 3:
            reached.set()
            released.wait(_PATIENCE_SECONDS)
        return number

    asked, made = questions(tell, limit_seconds=0.05)
    try:
        for number in (1, 2):
            with pytest.raises(SchemasPending):
                asked.mapped(number, "orders", Side.KEY)
        with pytest.raises(TransformFailed, match="schema id 1 of the keys of orders"):
            answered(lambda: asked.mapped(1, "orders", Side.KEY))
        asked._limit = 600.0
        with pytest.raises(SchemasPending):
            asked.mapped(3, "orders", Side.KEY)
        assert reached.wait(_PATIENCE_SECONDS)
        with pytest.raises(TransformFailed, match="schema id 2 of the keys of orders"):
            answered(lambda: asked.mapped(2, "orders", Side.KEY))
        released.set()
        assert answered(lambda: asked.mapped(3, "orders", Side.KEY)) == 3
        assert [told.asked[:1] for told in made] == [[1], [3]]
    finally:
        released.set()
        asked.close()


def test_a_registry_that_is_silent_at_every_address_stops_with_the_topic_and_the_id() -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        urls = tuple(f"http://127.0.0.1:{one.getsockname()[1]}" for one in silent)
        source, target = (
            ClusterSettings(one, "127.0.0.1:1", {}, {}, schema_registry=RegistrySettings(urls)) for one in "ab"
        )
        job = CopyJob("a->b", "a", source, target, "o", 1, "s", 1, id_mapping=VALUES, request_timeout_ms=100)
        asked = slot_registries(job)
        assert asked is not None
        with pytest.raises(TransformFailed) as failed:
            answered(lambda: asked.mapped(7, "orders", Side.VALUE))
        asked.close()
    assert str(failed.value).startswith(
        "schema id 7 of the values of orders has no id at the target: the schema regist"
    )
    assert str(failed.value).count("no answer within 0.1 s") == 2


def test_a_certificate_that_is_gone_during_a_run_is_a_fault_of_who_needs_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca").pem
    tls = PemTexts(certificate_authority_file=str(authority))
    registry = RegistrySettings(("https://127.0.0.1:1",), tls=tls)
    source, target = (ClusterSettings(one, "127.0.0.1:1", {}, {}, schema_registry=registry) for one in "ab")
    job = CopyJob("a->b", "a", source, target, "o", 1, "s", 1, id_mapping=VALUES)
    asked = slot_registries(job)
    assert asked is not None
    authority.unlink()
    told = rf"^{authority} for the schema registry of cluster 'a' cannot be read: No such file"
    with pytest.raises(TransformFailed, match=told):
        answered(lambda: asked.mapped(7, "orders", Side.VALUE))
    asked.close()


def test_what_is_wrong_with_a_registry_is_told_before_anything_is_copied() -> None:
    source, target = (ClusterSettings.plaintext(one, "127.0.0.1:1") for one in "ab")
    job = CopyJob("a->b", "a", source, target, "o", 1, "s", 1)
    assert slot_registries(job) is None
    with pytest.raises(ConfigError, match=r"cluster a has no schema\.registry\.url"):
        slot_registries(replace(job, id_mapping=VALUES))


@pytest.fixture
def registries() -> Iterator[tuple[LocalRegistry, LocalRegistry]]:
    """Both give the same ids, so that copies are the same bytes."""
    with LocalRegistry() as source, LocalRegistry(imports=False, contexts=False) as target:
        for server in (source, target):
            for number in range(5):
                server.register(f"s{number}", f'{{"type": "fixed", "name": "F", "size": {number + 1}}}')
        yield source, target


def engine_with(
    source: FakeCluster, target: FakeCluster, name: str, registries: tuple[LocalRegistry, LocalRegistry]
) -> Engine:
    engine = Engine(source, target, name)
    flow = engine.flow
    ours, theirs = (RegistrySettings((registry.url,)) for registry in registries)
    engine.flow = replace(
        flow,
        source=replace(flow.source, schema_registry=ours),
        target=replace(flow.target, schema_registry=theirs),
    )
    return engine


def test_other_partitions_go_on_while_a_registry_is_silent(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    registries: tuple[LocalRegistry, LocalRegistry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is the test that ends the silence, on any machine.
    monkeypatch.setattr(module, "_LONGEST_REQUEST_SECONDS", 600.0)
    reached, released = threading.Event(), threading.Event()

    def silent(method: str, path: str) -> None:
        reached.set()
        assert released.wait(_PATIENCE_SECONDS)

    registries[0].fault = silent
    engine = engine_with(source_kafka, target_kafka, name, registries)
    mapped, plain = f"{name}-mapped", f"{name}-plain"
    engine.create(mapped, 2)
    engine.create(plain)
    for partition in range(2):
        source_kafka.write(mapped, [(None, b"before"), (None, framed(3)), (None, b"behind")], partition)
    clock = TailingTime()
    run = Background(
        engine,
        *(mapped, plain),
        clock=clock,
        tail_until=clock.until,
        linger_seconds=0.01,
        fetch_max_wait_ms=50,
        request_timeout_ms=600_000,
        id_mapping=VALUES,
    )
    try:
        assert reached.wait(_PATIENCE_SECONDS)
        for count in range(1, 4):
            source_kafka.write(plain, [(None, b"x")])
            wait_for_copies(engine, plain, 0, count)
        assert target_kafka.records(engine.copy_of(mapped), 0) == []
        assert run.running
    finally:
        released.set()
    for partition in range(2):
        wait_for_copies(engine, mapped, partition, 3)
    clock.end()
    assert not run.result().errors
    assert engine.check(mapped) == 6
    assert engine.check(plain) == 3


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_copied_once_however_late_answers_come(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    registries: tuple[LocalRegistry, LocalRegistry],
    seed: int,
) -> None:
    draw = random.Random(seed)
    for server in registries:
        server.fault = lambda method, path: time.sleep(draw.random() * 0.05)
    engine = engine_with(source_kafka, target_kafka, name, registries)
    topic = f"{name}-mapped"
    engine.create(topic, 3)
    run = Background(
        engine,
        topic,
        tail_until=time.time() + 1,
        chunk_bytes=draw.choice((500, 1 << 20)),
        fetch_partition_bytes=draw.choice((300, 1 << 20)),
        linger_seconds=draw.choice((0.01, 0.1)),
        fetch_max_wait_ms=50,
        id_mapping=VALUES,
    )
    for _ in range(25):
        rows = [
            (b"k", draw.choice((None, b"plain", framed(draw.randrange(1, 6), bytes(draw.randrange(90))))))
            for _ in range(draw.randrange(1, 12))
        ]
        source_kafka.write(topic, rows, draw.randrange(3))
        if draw.random() < 0.3:
            target_kafka.refuse("Produce", 6, times=1)
        time.sleep(0.02)
    assert not run.result().errors
    engine.copy(topic, id_mapping=VALUES)
    assert engine.check(topic) == sum(len(source_kafka.records(topic, partition)) for partition in range(3))
