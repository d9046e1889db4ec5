"""Producers, a consumer group and a flow's runs that go on while clusters die and come back."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.partition_track import Progress
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topics.actions import failed
from srm_common.errors import SrmError
from srm_common.kafka.client.librdkafka import silent_logger
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.slot_worker import here

PATIENCE = 300.0


@dataclass
class Ledger:
    """What was written and read, anywhere. ``loose`` was read when a broker died, before the commit was confirmed."""

    written: set[str] = field(default_factory=set)
    read: Counter[str] = field(default_factory=Counter)
    loose: set[str] = field(default_factory=set)

    @property
    def unread(self) -> set[str]:
        return self.written - self.read.keys()

    @property
    def again(self) -> int:
        """How many records were read a second time."""
        return sum(count - 1 for count in self.read.values())


class _Worker(ABC):
    """Something that goes on until it is told to stop; what it raises fails the test at the end."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Tell it to end; leaving the block waits for that."""
        self._stopping.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join(PATIENCE)
        if kind is None and self._fault is not None:
            raise self._fault
        assert not self._thread.is_alive(), f"{type(self).__name__} does not end"

    def _go(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._fault = error

    @abstractmethod
    def _work(self) -> None:
        """Go on until ``_stopping`` is set."""


class LiveProducer(_Worker):
    """Writes records that tell themselves apart, to all partitions; those that were confirmed are in the ledger."""

    def __init__(self, kafka: LocalKafka, topic: str, partitions: int, ledger: Ledger, rate: float = 800.0) -> None:
        super().__init__()
        self._kafka, self._topic, self._partitions, self._ledger, self._rate = kafka, topic, partitions, ledger, rate
        self.keys: set[str] = set()

    @property
    def confirmed(self) -> int:
        return len(self.keys)

    def _work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 5000,
                "log_level": 0,
            },
            logger=silent_logger,
        )

        def delivered(error: Any, message: Message) -> None:
            # What is not confirmed was written or not: nobody may count on it.
            if error is None:
                key = str(message.key(), "ascii")  # type: ignore[arg-type]
                self.keys.add(key)
                self._ledger.written.add(key)

        number = 0
        while not self._stopping.wait(10 / self._rate):
            for _ in range(10):
                key = uuid.uuid4().hex
                with contextlib.suppress(BufferError, KafkaException):
                    producer.produce(
                        self._topic, key=key, partition=number % self._partitions, value=b"x" * 100, callback=delivered
                    )
                number += 1
            producer.poll(0)
        producer.flush(60)


class LiveConsumer(_Worker):
    """A member of the group that commits after each record batch. Ends by itself when its cluster is killed."""

    def __init__(self, kafka: LocalKafka, topics: Iterable[str], group: str, ledger: Ledger) -> None:
        super().__init__()
        self._kafka, self._topics, self._group, self._ledger = kafka, list(topics), group, ledger
        self._answer: list[KafkaError | None] = []
        self._waiting: list[Message] = []
        self.count = 0

    def _work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "group.id": self._group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 10000,
                "topic.metadata.refresh.interval.ms": 1000,
                "on_commit": lambda error, places: self._answer.append(error),
                "log_level": 0,
            },
            logger=silent_logger,
        )
        consumer.subscribe(self._topics)
        while not self._stopping.is_set():
            messages = [*self._waiting, *consumer.consume(50, 0.2)]
            self._waiting = []
            records = [message for message in messages if message.error() is None]
            if not records:
                continue
            keys = [str(record.key(), "ascii") for record in records]  # type: ignore[arg-type]
            self._ledger.read.update(keys)
            self._ledger.loose.update(keys)
            if not self._commit(consumer, records):
                # Nobody answers any more; the client would wait for that when it is closed.
                threading.Thread(target=consumer.close, daemon=True).start()
                return
            self._ledger.loose.difference_update(keys)
            self.count += len(keys)
        consumer.close()

    def _commit(self, consumer: Consumer, records: list[Message]) -> bool:
        ends: dict[tuple[str, int], int] = {}
        for record in records:
            ends[str(record.topic()), int(record.partition() or 0)] = int(record.offset() or 0) + 1
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        deadline = time.monotonic() + PATIENCE
        while self._kafka.running() and time.monotonic() < deadline:
            self._answer.clear()
            with contextlib.suppress(KafkaException):
                consumer.commit(offsets=places, asynchronous=True)
            while not self._answer and self._kafka.running() and time.monotonic() < deadline:
                message = consumer.poll(0.02)
                if message is not None:
                    self._waiting.append(message)
            if self._answer and self._answer[0] is None:
                return True
        return False


class LiveFlow(_Worker):
    """Runs a flow again and again, as its DAG does."""

    def __init__(self, flow: FlowSettings) -> None:
        super().__init__()
        self._flow = flow
        self.rounds = 0

    def _work(self) -> None:
        # With a moment between, as between two runs of a DAG: a round is CPU that brokers need, too.
        while not self._stopping.wait(0.4):
            # A cluster may die at any moment; whether all is well in the end is for the ledger to say.
            with contextlib.suppress(SrmError):
                run_once(self._flow)
                self.rounds += 1


class LongRun(_Worker):
    """One run that goes on until its source is gone, or it is told to stop."""

    def __init__(self, flow: FlowSettings) -> None:
        super().__init__()
        self._flow = flow

    def _work(self) -> None:
        def slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            return [copy_slot(replace(job, tail_until=time.time() + 1), task) for task in tasks]

        def look(progress: Progress) -> None:
            if self._stopping.is_set() and not progress.copying:
                raise KeyboardInterrupt

        with contextlib.suppress(SrmError, KeyboardInterrupt):
            replicate(self._flow, RunOptions(uuid.uuid4().hex, max_seconds=3600.0), slots, look)


def run_once(flow: FlowSettings) -> RunRecord:
    """The tasks of a flow's DAG, with the slots in this process."""
    record = copy_once(flow)
    sync_checkpoints(flow)
    return record


def copy_once(flow: FlowSettings) -> RunRecord:
    """Makes the topics ready and copies what is new."""
    assert not failed(refresh_topics(flow, at_once=True).results)
    options = RunOptions(uuid.uuid4().hex, max_seconds=0.0)
    return replicate(flow, options, here)


def wait_for(what: str, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Returns when it holds; fails the test when it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.05)
