"""Watches from outside when a copy starts and when it is complete, in the same way for both sides."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.segment_files import LogContent
from bench.sides import Flow

_QUIET = logging.getLogger("bench.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class TargetWatch:
    """Follows one flow's remote topics.

    Exactly once, a copy is complete when the source offsets committed on the target (the format is MirrorMaker 2's
    on both sides) reach the end of every source partition: they become visible in the same transaction as the data.
    At least once, when every remote partition has as many records as its source; nothing else is in those logs.
    """

    def __init__(self, servers: str, flow: Flow, source: Mapping[tuple[str, int], LogContent]) -> None:
        self._flow = flow
        self._servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0}, logger=_QUIET)
        self._source = dict(source)
        self._offsets: _CommittedOffsets | None = None

    def copied(self) -> dict[tuple[str, int], int]:
        """End offset of every remote partition by upstream topic and partition; 0 where there is none yet."""
        asked = {
            TopicPartition(self._flow.remote_topic(topic), partition): (topic, partition)
            for topic, partition in self._source
        }
        answers = self._admin.list_offsets(
            {remote: _END for remote in asked},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=10,
        )
        ends: dict[tuple[str, int], int] = {}
        for remote, future in answers.items():
            try:
                ends[asked[remote]] = max(0, future.result(15).offset)
            except KafkaException:  # not created yet
                ends[asked[remote]] = 0
        return ends

    def complete(self, copied: Mapping[tuple[str, int], int]) -> bool:
        """``copied`` is the last answer of :meth:`copied`."""
        if not self._flow.exactly_once:
            return all(copied[place] >= content.records for place, content in self._source.items())
        # The offsets are read when the end comes near, early enough to be up to date by then.
        if self.share(copied) < 0.8:
            return False
        if self._offsets is None:
            self._offsets = _CommittedOffsets(self._servers, self._flow)
        committed = self._offsets.read()
        return all(committed.get(place, -1) >= content.end_offset - 1 for place, content in self._source.items())

    def share(self, copied: Mapping[tuple[str, int], int]) -> float:
        """How much of the source is on the target, 0 to 1; control records count, so it may be a little too much."""
        total = sum(content.records for content in self._source.values())
        there = sum(min(copied[place], content.records) for place, content in self._source.items())
        return there / total

    def close(self) -> None:
        if self._offsets is not None:
            self._offsets.close()


class _CommittedOffsets:
    """Reads the offsets topic as it grows, committed records only."""

    def __init__(self, servers: str, flow: Flow) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            },
            logger=_QUIET,
        )
        found = self._consumer.list_topics(flow.offsets_topic, timeout=10).topics[flow.offsets_topic]
        self._consumer.assign(
            [TopicPartition(flow.offsets_topic, partition, OFFSET_BEGINNING) for partition in found.partitions]
        )
        self._alias = flow.alias
        self._seen: dict[tuple[str, int], int] = {}

    def read(self) -> dict[tuple[str, int], int]:
        """Last copied source offset by topic and partition, with what has come since the last call."""
        while messages := self._consumer.consume(500, timeout=0.02):
            for message in messages:
                self._take(message)
        return self._seen

    def _take(self, message: Message) -> None:
        if message.error():
            raise KafkaException(message.error())
        key, value = message.key(), message.value()
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            return
        connector, where = json.loads(key)
        if connector == "MirrorSourceConnector" and where["cluster"] == self._alias:
            self._seen[where["topic"], where["partition"]] = json.loads(value)["offset"]

    def close(self) -> None:
        self._consumer.close()
