"""What is planted in the copies at west: thirteen faults such as disks, brokers, people and other programs cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from demo.stage import Clusters, DemoError
from srm_common.domain.flow import names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.planted_faults import FAULTS, flip_bit, plant
from srm_common.usecases.flows.flow_clusters import clusters_of
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import segment_partition

_LIMIT_SECONDS = 120.0
#: The batch at which faults in files begin: in the middle of a log with nine batches.
_BATCH = 4


@dataclass(frozen=True)
class Planting:
    """One fault for one partition, and what a verification must report."""

    fault: str
    topic: str
    partition: int
    meaning: str
    named: DifferenceKind

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


#: While the broker is down, in its files.
IN_FILES = (
    Planting("changed byte", "orders", 0, "a byte of one order has changed", DifferenceKind.CHANGED),
    Planting("dropped batch", "orders", 1, "a batch is gone", DifferenceKind.LOST),
    Planting("doubled batch", "orders", 2, "a batch appears once more, at the end", DifferenceKind.DOUBLED),
    Planting("swapped batches", "orders", 3, "two batches have changed places", DifferenceKind.REORDERED),
    Planting("wrong timestamp", "payments", 0, "records are a millisecond late", DifferenceKind.CHANGED),
    Planting("key lost", "payments", 1, "records have lost their keys", DifferenceKind.CHANGED),
    Planting("header lost", "sensors", 0, "records have lost their headers", DifferenceKind.CHANGED),
    Planting("truncated log", "clicks", 0, "the end is gone, as after an unclean election", DifferenceKind.TRUNCATED),
    Planting("compaction in the middle", "clicks", 1, "a cleaner took every second record", DifferenceKind.COMPACTED),
)
#: While it runs again.
LIVE = (
    Planting("flipped bit", "clicks", 2, "a bit on the disk has flipped", DifferenceKind.CORRUPT),
    Planting("foreign record", "clicks", 3, "another producer writes to the copy", DifferenceKind.FOREIGN),
    Planting("offset map record removed", "sensors", 1, "the map has lost a segment", DifferenceKind.UNMAPPED),
    Planting("re-created topic", "audit", 0, "the copy was deleted and created again", DifferenceKind.RECREATED),
)


class Gardener:
    """Plants faults, and says where, in words for people."""

    def __init__(self, clusters: Clusters) -> None:
        self._flow, self._west = clusters.flow, clusters.west
        self._live: dict[str, Callable[[Planting], str]] = {
            "flipped bit": self._flip,
            "foreign record": self._write,
            "offset map record removed": self._forget,
            "re-created topic": self._create_again,
        }

    def copy(self, topic: str) -> str:
        return self._flow.policy.format_remote_topic(self._flow.name.source, topic)

    def plant(self, one: Planting) -> str:
        """Where it is. The broker must be stopped for those of ``IN_FILES``, and running for those of ``LIVE``."""
        if one.fault in self._live:
            return self._live[one.fault](one)
        planted = plant(self._west, self.copy(one.topic), FAULTS[one.fault], partition=one.partition, batch=_BATCH)
        return _offsets(planted.first, planted.last)

    def _flip(self, one: Planting) -> str:
        planted = flip_bit(self._west, self.copy(one.topic), partition=one.partition, batch=_BATCH)
        return _offsets(planted.first, planted.last)

    def _write(self, one: Planting) -> str:
        stored: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            stored.append(message.offset() or 0)

        producer = Producer({"bootstrap.servers": self._west.bootstrap_servers})
        producer.produce(self.copy(one.topic), b"not of the flow", partition=one.partition, on_delivery=delivered)
        if producer.flush(_LIMIT_SECONDS):
            raise DemoError(f"west did not accept a record of {self.copy(one.topic)} within {_LIMIT_SECONDS:.0f} s")
        return _offsets(stored[0], stored[0])

    def _forget(self, one: Planting) -> str:
        topic = names.segments_topic(self._flow.name.source)
        with clusters_of(self._flow) as clusters:
            target = clusters.target
            partitions = target.reader.partitions(topic)
            place = TopicPartition(one.topic, one.partition)
            known = dict(SegmentLog(target.reader, topic, partitions).maps([place])).get(place)
            if known is None or len(known) < 3:
                raise DemoError(f"{topic} has too few segments of {one.topic}-{one.partition}: let the flow run again")
            middle = len(known) // 2
            segment = known[middle]
            home = segment_partition(one.topic, one.partition, partitions)
            target.writer().write("drop a segment", [NewRecord(topic, home, known.key(middle), None)])
        return _offsets(segment.downstream_start, segment.downstream_end - 1)

    def _create_again(self, one: Planting) -> str:
        copy, admin = self.copy(one.topic), self._west.admin()
        admin.delete_topics([copy], operation_timeout=_LIMIT_SECONDS)[copy].result(_LIMIT_SECONDS)
        wait_until(
            lambda: copy not in admin.list_topics(timeout=_LIMIT_SECONDS).topics,
            _LIMIT_SECONDS,
            f"{copy} to be deleted at west",
        )
        self._west.create_topic(copy, 1)
        return "the whole topic"


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
