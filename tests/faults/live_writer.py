"""Producers that write to a source topic while it is being copied, and survive whatever happens to the broker."""

from __future__ import annotations

import logging
import random
import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException, Producer

CODECS = ("none", "lz4", "zstd", "snappy", "gzip")
#: So many records are written at the full rate.
_FULL_SPEED = 10_000
_SILENT = logging.getLogger("tests.faults.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class LiveWriter:
    """Plain producers of several codecs, and transactional ones of which many transactions abort.

    Every record's value begins with its producer and number, so that a difference can be read. ``rate`` is records
    per second of all producers together, roughly, of the first ten thousand. A context manager; leaving it ends every
    transaction, so that the source's last stable offset is its end.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        seed: int,
        *,
        plain: int = 2,
        transactional: int = 2,
        rate: float = 2000.0,
        value_bytes: int = 300,
    ) -> None:
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._value_bytes = value_bytes
        self._stopping = threading.Event()
        self._aborted = 0
        self.written = 0
        self._crash: BaseException | None = None
        share = rate / max(plain + transactional, 1)
        works: list[tuple[Any, int]] = [(self._plain, n) for n in range(plain)]
        works += [(self._transactional, n + plain) for n in range(transactional)]
        self._threads = [
            threading.Thread(
                target=self._guarded,
                args=(work, number, random.Random(seed * 1000 + number), share),
                name=f"writer-{number}",
                daemon=True,
            )
            for work, number in works
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(180)
        if kind is None:
            if any(thread.is_alive() for thread in self._threads):
                raise AssertionError("a writer did not end: the source broker is not back")
            if self._crash is not None:
                raise AssertionError("a writer failed") from self._crash

    def _guarded(self, work: Any, number: int, dice: random.Random, rate: float) -> None:
        try:
            work(number, dice, rate)
        except BaseException as error:
            self._crash = error

    def _rest(self, seconds: float) -> None:
        """The more is written the longer, so that a slow machine has hardly more to copy and to compare."""
        self._stopping.wait(seconds * max(1.0, self.written / _FULL_SPEED))

    def _settings(self, number: int, dice: random.Random) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "compression.type": CODECS[(number + dice.randrange(5)) % 5],
            "linger.ms": 5,
            "batch.size": dice.choice([2000, 16000, 60000]),
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
            # A broker with a ZooKeeper knows of no topic right after its start.
            "topic.metadata.propagation.max.ms": 600_000,
            "log_level": 0,
        }

    def _burst(self, producer: Producer, number: int, dice: random.Random, count: int) -> None:
        for _ in range(count):
            self.written += 1
            text = b"%d/%d " % (number, self.written)
            kind = dice.random()
            producer.produce(
                self._topic,
                key=None if kind < 0.1 else text if kind > 0.2 else b"",
                value=None if 0.1 < kind < 0.12 else text + dice.randbytes(8) * dice.randrange(self._value_bytes // 4),
                headers=[("n", text), ("n", None), ("", b"")] if kind > 0.9 else None,
                partition=dice.randrange(self._partitions),
                timestamp=int(time.time() * 1000) - dice.randrange(5000),
            )
            producer.poll(0)

    def _plain(self, number: int, dice: random.Random, rate: float) -> None:
        producer = Producer(self._settings(number, dice), logger=_SILENT)
        while not self._stopping.is_set():
            count = dice.randrange(1, 80)
            try:
                self._burst(producer, number, dice, count)
            except BufferError:
                producer.poll(0.1)
            self._rest(count / rate)
        producer.flush(60)

    def _transactional(self, number: int, dice: random.Random, rate: float) -> None:
        name = f"{self._topic}-writer-{number}"
        producer: Producer | None = None
        while True:
            try:
                if producer is None:
                    settings = self._settings(number, dice) | {
                        "transactional.id": name,
                        "transaction.timeout.ms": 60000,
                    }
                    producer = Producer(settings, logger=_SILENT)
                    # It also aborts what an earlier one left open.
                    producer.init_transactions(30)
                if self._stopping.is_set():
                    return
                producer.begin_transaction()
                count = dice.randrange(1, 120)
                self._burst(producer, number, dice, count)
                producer.flush(5)
                if dice.random() < 0.4:
                    producer.abort_transaction(20)
                else:
                    producer.commit_transaction(20)
            except (KafkaException, BufferError):
                # The broker was killed, or answers too late. A new producer of the same name ends the transaction.
                producer = None
                time.sleep(0.2)
                continue
            self._rest(count / rate)
