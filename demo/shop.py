"""The clients of the failover demo: a shop that writes orders, and a billing service that reads them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer

TOPIC = "orders"
GROUP = "billing"
#: The topic and every copy of it, whatever it is called.
TOPICS = rf"^(.*\.)?{TOPIC}$"
_PER_SECOND = 50
_CLOSE_SECONDS = 20.0
_QUIET = logging.getLogger("demo.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class Shop:
    """Writes numbered orders inside the ``with`` block. ``written`` are those that the cluster has acknowledged."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.written: set[str] = set()
        self._name = name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"shop-{name}", daemon=True)
        settings: dict[str, str | int] = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            # What a dead cluster does not acknowledge is given up: no order was confirmed.
            "message.timeout.ms": 10_000,
            "linger.ms": 20,
        }
        self._producer = Producer(settings, logger=_QUIET)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(15)

    def _work(self) -> None:
        number = 0
        while not self._ended.wait(1 / _PER_SECOND):
            self._producer.produce(
                TOPIC, key=str(number), value=f"{self._name}-{number}", on_delivery=self._acknowledged
            )
            self._producer.poll(0)
            number += 1

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.written.add(value.decode())


class Billing:
    """The group reads all orders of a cluster inside the ``with`` block, and counts them in ``read``."""

    def __init__(self, bootstrap_servers: str, read: Counter[str]) -> None:
        self._read = read
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="billing", daemon=True)
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 2000,
            "topic.metadata.refresh.interval.ms": 2000,
            "session.timeout.ms": 6000,
        }
        self._consumer = Consumer(settings, logger=_QUIET)

    def __enter__(self) -> Self:
        self._consumer.subscribe([TOPICS])
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        # Commits, and leaves the group, if the cluster is alive: for a dead one librdkafka waits forever.
        closing = threading.Thread(target=self._consumer.close, name="billing-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.2)
            value = None if message is None or message.error() else message.value()
            if value is not None:
                self._read[value.decode()] += 1


def wait_until_read(read: Counter[str], written: set[str], seconds: float) -> bool:
    """Whether every one of ``written`` is read within that time."""
    deadline = time.monotonic() + seconds
    while not written <= read.keys():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
