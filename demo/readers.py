"""Consumer groups of the demo, whose offsets the flow translates."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer

#: Group, and the topics that it reads at east.
READERS: Mapping[str, Sequence[str]] = {"billing": ("orders", "payments"), "dashboards": ("clicks",)}
_AT_ONCE = 500
_QUIET = logging.getLogger("demo.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class Readers:
    """The groups consume inside the ``with`` block, and commit as consumers do."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(bootstrap_servers, group, list(topics)), name=group, daemon=True)
            for group, topics in READERS.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _read(self, bootstrap_servers: str, group: str, topics: list[str]) -> None:
        settings: dict[str, str | int] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
        }
        consumer = Consumer(settings, logger=_QUIET)
        consumer.subscribe(topics)
        while not self._ended.is_set():
            consumer.consume(_AT_ONCE, 0.5)
        consumer.close()
