"""A source with all that is awkward to copy, and the comparison of its copy."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import Producer

from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.segments import Segment
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.testing import LocalKafka
from tests.kafka.engine import Engine
from tests.kafka.flows import Seen
from tests.kafka.records import eventually, log_batches, mixed_records, produce, put, writer
from tests.worlds.world import World

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: What a record of this size becomes is a few bytes below the default limit of a batch, 1,048,588.
NEARLY_TOO_LARGE = 1_048_400
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": "86400000",
}


class AwkwardSource:
    """Topics at the source of a world whose names begin with ``name``. ``topics`` are their partitions by name."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._kafka: LocalKafka = world.source.kafka
        self._dice = random.Random(name)
        self._name = name
        self.topics: dict[str, int] = {}
        self._keys: dict[int, int] = {}

    def write(self) -> None:
        """Everything. The compacted topic comes first, so that the cleaner has time."""
        compacted = self._topic("compacted", 2, COMPACTED)
        self._write_compacted(compacted)
        self._write_codecs(self._topic("codecs", 3))
        self._write_tiny(self._topic("tiny", 2))
        self._write_large(self._topic("large", 2))
        self._write_stamped(self._topic("stamped", 2, {"message.timestamp.type": "LogAppendTime"}))
        self._write_transactions(self._topic("transactions", 2))
        # One partition has a record, the others stay as they are.
        produce(self._kafka, self._topic("idle", 4), 2, mixed_records(1))
        self._topic("empty", 2)
        self._wait_for_holes(compacted)
        for topic in self.topics:
            if topic != compacted:
                self._world.ready(topic)

    def write_more(self) -> None:
        """A little more of everything that takes no preparation."""
        with self._writer(compression_type="lz4") as producer:
            for kind in ("codecs", "tiny", "idle", "empty", "compacted", "stamped"):
                topic = f"{self._name}-{kind}"
                for partition in range(self.topics[topic]):
                    # Keys that are new, so that nothing in a compacted topic becomes old.
                    records = [replace(one, key=b"more%d" % n) for n, one in enumerate(mixed_records(30, partition))]
                    put(producer, topic, partition, records)

    @contextmanager
    def _writer(self, **settings: object) -> Iterator[Producer]:
        """A producer for several partitions; what it was given is written at the end of the block."""
        producer = writer(self._kafka, **settings)
        yield producer
        assert producer.flush(60) == 0

    def _topic(self, kind: str, partitions: int, config: dict[str, str] | None = None) -> str:
        topic = f"{self._name}-{kind}"
        self._world.create(topic, partitions, config)
        self.topics[topic] = partitions
        return topic

    def _write_codecs(self, topic: str) -> None:
        """All codecs in each partition; null and empty keys and values, headers of all kinds."""
        for number, codec in enumerate([*CODECS, *reversed(CODECS)]):
            size, idempotent = [60, 3000][number % 2], {"enable_idempotence": True} if number % 3 == 0 else {}
            with self._writer(compression_type=codec, **idempotent) as producer:
                for partition in range(self.topics[topic]):
                    put(producer, topic, partition, mixed_records(150, number * 10 + partition, size))

    def _write_tiny(self, topic: str) -> None:
        """One record a batch."""
        with self._writer(batch_num_messages=1, linger_ms=0) as producer:
            for partition in range(self.topics[topic]):
                put(producer, topic, partition, mixed_records(400, partition, 60))

    def _write_large(self, topic: str) -> None:
        """Batches of one record each that nearly reach the limit; no codec makes them smaller."""
        now = int(time.time() * 1000)
        with self._writer(message_max_bytes=2 << 20, batch_size=1000) as producer:
            for partition in range(self.topics[topic]):
                noise = [Seen(None, self._dice.randbytes(NEARLY_TOO_LARGE), (), now) for _ in range(2)]
                put(producer, topic, partition, noise)

    def _write_stamped(self, topic: str) -> None:
        """The broker says when these were written."""
        for codec in CODECS:
            with self._writer(compression_type=codec) as producer:
                for partition in range(self.topics[topic]):
                    put(producer, topic, partition, mixed_records(60, 3))

    def _write_transactions(self, topic: str) -> None:
        """Transactions that were committed or aborted, side by side, with plain records between them.

        One partition ends with records that were aborted.
        """
        producers = [writer(self._kafka, transactional_id=f"{topic}-{one}", linger_ms=1) for one in range(3)]
        for producer in producers:
            producer.init_transactions(120)
        plain = writer(self._kafka, linger_ms=0)
        for number in range(12):
            for producer in producers:
                producer.begin_transaction()
                self._put_somewhere(producer, topic, 30)
            self._put_somewhere(plain, topic, 5)
            for producer in producers:
                producer.flush(120)
            assert plain.flush(120) == 0
            for which, producer in enumerate(producers):
                if (number + which) % 3 == 0 or number == 11:
                    producer.abort_transaction(120)
                else:
                    producer.commit_transaction(120)

    def _put_somewhere(self, producer: Producer, topic: str, count: int) -> None:
        for partition in range(self.topics[topic]):
            put(producer, topic, partition, mixed_records(count, self._dice.randrange(1000), 80))

    def _write_compacted(self, topic: str) -> None:
        """Keys that come again, and records without a value, in batches of many records and several codecs."""
        now = int(time.time() * 1000)
        for partition in range(self.topics[topic]):
            records = []
            for number in range(3000):
                key = b"once%d" % number if number % 3 == 0 else b"k%d" % self._dice.randrange(40)
                value = None if number % 50 == 0 else b"%d:" % number + b"text " * self._dice.randrange(60)
                headers = (("n", b"%d" % number), ("n", None)) if number % 7 == 0 else ()
                records.append(Seen(key, value, headers, now - self._dice.randrange(1000)))
            codec = CODECS[(partition + 3) % 5]
            produce(self._kafka, topic, partition, records, compression_type=codec, batch_num_messages=200)
            self._keys[partition] = len({record.key for record in records})
            # The active segment is never cleaned. It rolls when a record is segment.ms newer than its first one.
            produce(self._kafka, topic, partition, [Seen(b"newest", b"1", (), now + 60_000)])

    def _wait_for_holes(self, topic: str) -> None:
        def records(partition: int) -> int:
            return sum(batch.header.record_count for batch in log_batches(self._kafka, topic, partition))

        # One record of each key is left, deletions included, and the one in the active segment.
        eventually(
            lambda: all(records(partition) == left + 1 for partition, left in self._keys.items()),
            180,
            f"{topic} was not compacted",
        )


class Comparison(Engine):
    """:meth:`check` compares a topic with its copy, as clients of the brokers' open listeners see them."""

    def __init__(self, world: World, flow: FlowSettings) -> None:
        self.source, self.target = world.source.kafka, world.target.kafka
        self.flow, self.state, self.limits = flow, ensure_state_topics(flow), {}
        self._positions: dict[tuple[str, int], int] | None = None
        self._maps: dict[str, dict[int, list[Segment]]] | None = None

    def check_all(self, source: AwkwardSource) -> int:
        """All topics: equal, mapped exactly, and copied to the end. The number of records."""
        # What the flow has recorded of all topics is read once.
        self._positions, self._maps = super().committed(), self.all_segments()
        return sum(self.check(topic) for topic in source.topics)

    def committed(self) -> dict[tuple[str, int], int]:
        return super().committed() if self._positions is None else self._positions

    def segments(self, topic: str) -> dict[int, list[Segment]]:
        return super().segments(topic) if self._maps is None else self._maps.get(topic, {})
