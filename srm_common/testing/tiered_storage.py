"""Tiered storage (KIP-405) for local brokers: Kafka's own ``LocalTieredStorage`` in a folder next to their data."""

from __future__ import annotations

import time

from srm_common.errors import LocalKafkaError
from srm_common.testing.local_kafka import LocalKafka

TIERED_TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.ms": "500",
    "retention.ms": "-1",
}
"""Settings of a topic whose closed segments of 1 MiB go to the remote store and leave the brokers at once."""


def local_start(kafka: LocalKafka, topic: str, partition: int = 0) -> int:
    """The first offset that some broker still has on its own disk."""
    logs = kafka.directory.glob(f"node-*/data/{topic}-{partition}/*.log")
    return min((int(log.stem) for log in logs), default=0)


def wait_until_remote(
    kafka: LocalKafka, topic: str, offset: int, partition: int = 0, *, timeout_seconds: float = 180.0
) -> int:
    """Returns the first local offset as soon as all offsets below ``offset`` are in the remote store only."""
    deadline = time.monotonic() + timeout_seconds
    while (start := local_start(kafka, topic, partition)) < offset:
        if time.monotonic() > deadline:
            raise LocalKafkaError(f"{topic}-{partition} of {kafka.name} still has offset {start} on its own disk")
        time.sleep(0.1)
    return start
