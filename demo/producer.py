"""Writes topics of the demo until it is ended: ``python -m demo.producer <bootstrap servers> <topic>...``."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence

from confluent_kafka import Producer

from demo.topics import RETURNS, TOPICS, DemoTopic
from srm_common.errors import SrmError

TICKS_PER_SECOND = 5
ABORTED = 0.1


class BurstError(SrmError):
    """A cluster of the demo does not accept records."""


class TopicWriter:
    """One producer for one topic, so that each has its own codec.

    Args:
        log_level: the syslog level up to which librdkafka logs to standard error; 6 is informational.
    """

    def __init__(self, topic: DemoTopic, bootstrap_servers: str, *, log_level: int = 6) -> None:
        self._topic = topic
        self._dice = random.Random(topic.name)
        self._number = 0
        self._owed = 0.0
        settings: dict[str, str | int] = {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": topic.codec,
            "linger.ms": 50,
            "enable.idempotence": "true",
            "log_level": log_level,
        }
        if topic.transactional:
            settings["transactional.id"] = f"demo-{topic.name}"
        self._producer = Producer(settings)
        if topic.transactional:
            self._producer.init_transactions(30)

    def tick(self) -> None:
        """Writes the records of a fifth of a second."""
        self._owed += self._topic.per_second / TICKS_PER_SECOND
        count = int(self._owed)
        self._owed -= count
        if self._topic.transactional:
            self._producer.begin_transaction()
        for _ in range(count):
            self._produce()
        if not self._topic.transactional:
            self._producer.poll(0)
        elif self._dice.random() < ABORTED:
            self._producer.abort_transaction(30)
        else:
            self._producer.commit_transaction(30)

    def burst(self, seconds: float) -> int:
        """Writes at once the records of ``seconds`` seconds, evenly to all partitions, and returns how many the topic
        got. The first transaction of a topic is aborted."""
        count = int(self._topic.per_second * seconds)
        aborted = self._topic.transactional and self._number == 0
        if self._topic.transactional:
            self._producer.begin_transaction()
        for number in range(count):
            self._produce(partition=number % self._topic.partitions)
        if aborted:
            self._producer.flush(30)
            self._producer.abort_transaction(30)
        elif self._topic.transactional:
            self._producer.commit_transaction(30)
        elif self._producer.flush(30):
            raise BurstError(f"{self._topic.name} was not written within 30 s; check that its cluster is running")
        return 0 if aborted else count

    def _produce(self, partition: int = -1) -> None:
        """To the partition that the partitioner chooses, by default."""
        key, value, headers = self._topic.make(self._dice, self._number)
        self._producer.produce(self._topic.name, key=key, value=value, headers=headers, partition=partition)
        self._number += 1


def main(arguments: Sequence[str]) -> None:
    bootstrap_servers, *names = arguments
    writers = [TopicWriter(topic, bootstrap_servers) for topic in (*TOPICS, RETURNS) if topic.name in names]
    due = time.monotonic()
    while True:
        for writer in writers:
            writer.tick()
        # A tick that came late is made up for, so that rates hold on a busy machine; a long stop is not.
        due = max(due + 1 / TICKS_PER_SECOND, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1:])
