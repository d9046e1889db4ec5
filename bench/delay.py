"""The delay of a long run: how long after its time a record of a trickle is seen by a read_committed consumer.

Both sides run in turn on the same pair of brokers, exactly once, while records come in evenly. MirrorMaker 2 runs as
usual; this project in one run with ``run.max.seconds``. What counts begins some seconds after the first record was
seen.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.errors import BenchError
from bench.one_run import clear
from bench.sides import Clusters, Flow, Side
from bench.workloads import DELAY, PARTITIONS
from srm_common.testing import LocalKafka

RECORDS_PER_SECOND = 500
RECORD_BYTES = 200
SECONDS = 60.0
#: Of a quick try, which is no shorter: a look at a few records says nothing.
LEAST_SECONDS = 20.0
SUMMARY = f"{RECORDS_PER_SECOND} records/s of {RECORD_BYTES} B on {PARTITIONS} partitions, one long run"
_TOPIC = f"bench-{DELAY}"
_STARTING_SECONDS = 180.0
_SETTLING_SECONDS = 8.0
_LAST_SECONDS = 30.0
_TICK_SECONDS = 0.01

_run_numbers = itertools.count(1)


@dataclass(frozen=True)
class DelayFigures:
    """One side. Delays are from the time at which the producer was given a record to its arrival at the consumer."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_seconds_per_minute: float
    broker_cpu_seconds_per_minute: float

    def to_json(self) -> dict[str, float]:
        """Rounded."""
        return {name: round(value, 1) for name, value in asdict(self).items()}


def figures(
    delays_ms: list[float], seconds: float, cpu_seconds: float, broker_cpu_seconds: float
) -> DelayFigures:  # fmt: skip
    """Of the delays of all records of a stretch of ``seconds``. Raises BenchError where there are too few."""
    if len(delays_ms) < 100:
        raise BenchError(f"only {len(delays_ms)} records were seen; take longer")
    return DelayFigures(
        len(delays_ms),
        median(delays_ms),
        quantiles(delays_ms, n=100)[98],
        max(delays_ms),
        cpu_seconds / seconds * 60,
        broker_cpu_seconds / seconds * 60,
    )


def result(taken: dict[str, list[DelayFigures]], date: str) -> dict[str, Any]:
    """One entry of the results file; figures are medians of the rounds."""
    out: dict[str, Any] = {"date": date, "summary": SUMMARY}
    for side, rounds in taken.items():
        shown = [delay_figures.to_json() for delay_figures in rounds]
        out[side] = {name: round(median(one[name] for one in shown), 1) for name in shown[0]}
    out["rounds"] = {side: [delay_figures.to_json() for delay_figures in rounds] for side, rounds in taken.items()}
    return out


def measure(
    clusters: Clusters,
    folder: Path,
    sides: tuple[Callable[[], Side], ...],
    seconds: float,
    rounds: int,
    report: Callable[[str, int, DelayFigures], None],
) -> dict[str, list[DelayFigures]]:
    """Side -> figures of each round."""
    clusters.source.create_topic(_TOPIC, PARTITIONS, 1)
    taken: dict[str, list[DelayFigures]] = {}
    for number in range(1, rounds + 1):
        for make in sides if number % 2 else sides[::-1]:
            side = make()
            run = next(_run_numbers)
            place = folder / f"delay-{run:03d}-{side.name}"
            place.mkdir(parents=True)
            # It has to start and to settle before it counts, and ends by itself.
            length = seconds + _SETTLING_SECONDS + _LAST_SECONDS
            flow = Flow(f"trickle{run}", _TOPIC, "none", RECORD_BYTES, exactly_once=True, run_seconds=length)
            try:
                delay_figures = _one(side, clusters, flow, place, seconds)
            finally:
                clear(clusters)
            taken.setdefault(side.name, []).append(delay_figures)
            report(side.name, number, delay_figures)
    return taken


def _one(side: Side, clusters: Clusters, flow: Flow, folder: Path, seconds: float) -> DelayFigures:
    with ExitStack() as stack:
        stack.enter_context(Trickle(clusters.source))
        try:
            side.start(clusters, flow, folder)
            with side.tree() as tree:
                seen = stack.enter_context(Arrivals(clusters.target, flow.remote_topic(_TOPIC)))
                seen.await_first(side)
                time.sleep(_SETTLING_SECONDS)
                begin = time.time()
                cpu, brokers = tree.cpu_seconds(), clusters.broker_cpu_seconds()
                time.sleep(seconds)
                cpu, brokers = tree.cpu_seconds() - cpu, clusters.broker_cpu_seconds() - brokers
                end = time.time()
                # The last ones of the stretch are still on their way.
                seen.await_later_than(end, side)
                side.finish()
        except BaseException:
            side.abandon()
            raise
    return figures([delay for at, delay in seen.delays if begin <= at < end], end - begin, cpu, brokers)


class Trickle:
    """Writes records evenly, in a thread of its own; each begins with the time at which it was given to the client."""

    def __init__(self, kafka: LocalKafka) -> None:
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0, "acks": "all"})
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write, name="trickle", daemon=True)

    def __enter__(self) -> Trickle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._producer.flush(30)

    def _write(self) -> None:
        padding = b"x" * (RECORD_BYTES - 8)
        begin, written = time.monotonic(), 0
        while not self._done.wait(_TICK_SECONDS):
            for _ in range(int((time.monotonic() - begin) * RECORDS_PER_SECOND) - written):
                value = time.time_ns().to_bytes(8, "big") + padding
                self._producer.produce(_TOPIC, value, partition=written % PARTITIONS)
                written += 1
            self._producer.poll(0)


class Arrivals:
    """Reads the copy as a read_committed consumer, in a thread of its own. ``delays`` are (time of a record in seconds,
    its delay in ms)."""

    def __init__(self, kafka: LocalKafka, topic: str) -> None:
        self._topic = topic
        self._kafka = kafka
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read, name="arrivals", daemon=True)
        self._failure: Exception | None = None
        self.delays: list[tuple[float, float]] = []

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def await_first(self, side: Side) -> None:
        """Until a record came that was written after the copy had begun."""
        self._await(lambda: bool(self.delays), side, "copied nothing")

    def await_later_than(self, at: float, side: Side) -> None:
        """Until a record of each partition came, or more than so many, that was written after ``at`` (seconds)."""
        self._await(lambda: sum(one > at for one, _ in self.delays[-200:]) >= 4 * PARTITIONS, side, "stopped copying")

    def _await(self, there: Callable[[], bool], side: Side, what: str) -> None:
        deadline = time.monotonic() + _STARTING_SECONDS
        while not there():
            if self._failure is not None:
                raise self._failure
            if not side.running() or time.monotonic() > deadline:
                raise BenchError(f"{side.name} {what}; its log ends with:\n{side.log_tail()}")
            time.sleep(0.05)

    def _read(self) -> None:
        try:
            self._go_on_reading()
        except Exception as failure:  # the thread that waits raises it
            self._failure = failure

    def _go_on_reading(self) -> None:
        admin = self._kafka.admin()
        while len(_partitions(admin.list_topics(timeout=30), self._topic)) < PARTITIONS:
            if self._done.wait(0.2):
                return
        consumer = Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "group.id": "bench-delay",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, number, 0) for number in range(PARTITIONS)])
            while not self._done.is_set():
                messages = consumer.consume(500, 0.05)
                now = time.time()
                for message in messages:
                    error = message.error()
                    if error is not None:
                        if error.code() == KafkaError._PARTITION_EOF or error.retriable():
                            continue
                        raise BenchError(f"the copy cannot be read: {error}")
                    value = message.value() or b""
                    at = int.from_bytes(value[:8], "big") / 1e9
                    self.delays.append((at, (now - at) * 1000))
        finally:
            consumer.close()


def _partitions(metadata: Any, topic: str) -> dict[int, Any]:
    found = metadata.topics.get(topic)
    return found.partitions if found is not None and found.error is None else {}
