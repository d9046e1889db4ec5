"""Markers of transactions may come later than the answers to their commits: until then nobody reads what is behind."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.runs.run_record import RunRecord
from srm_common.kafka.state.state_reader import StateReader
from tests.contract.parts import Cluster

_SECONDS = 120.0


def wait_for_markers(flow: FlowSettings, record: RunRecord) -> None:
    """Until everything that a run has committed on the target can be read."""
    copies = {partition.downstream_topic for partition in record.partitions}
    source = flow.name.source
    with StateReader(flow.target) as reader:
        for topic in sorted({names.segments_topic(source), names.offsets_topic(source)} | copies):
            reader.stable_ends(topic, range(reader.partitions(topic)), _SECONDS)


def wait_until_readable(kafka: Cluster, topic: str, partitions: Iterable[int]) -> None:
    """Until nothing holds back readers of committed records.

    A minute at most: where a test left a transaction open, what it reads next tells.
    """
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    places = {TopicPartition(topic, partition): latest for partition in partitions}
    deadline = time.monotonic() + 60
    # A new client that begins with the offsets may ask for leaders in vain, and again only seconds later.
    kafka.admin().describe_cluster(request_timeout=60).result()
    while time.monotonic() < deadline:
        try:
            stable, ends = (
                {place: future.result(60).offset for place, future in asked.items()}
                for asked in [
                    kafka.admin().list_offsets(places, isolation_level=isolation)
                    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
                ]
            )
        except KafkaException:  # a leader that moves
            continue
        if stable == ends:
            return
        time.sleep(0.02)
