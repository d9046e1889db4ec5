"""A producer with an open transaction on a fake cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.transactions.producer import Producer, init_producer
from srm_common.testing import FakeCluster

PLACE = TopicPartition("t", 0)
TIMEOUT_MS = 60_000


@contextmanager
def target() -> Iterator[tuple[FakeCluster, ClusterLink]]:
    """A cluster of ``transaction.version`` 1 with the topic of :data:`PLACE`, and a link to it."""
    with (
        FakeCluster(features={"transaction.version": 1}) as kafka,
        ClusterLink(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link,
    ):
        kafka.create_topic(PLACE.topic)
        yield kafka, link


async def began(link: ClusterLink) -> Producer:
    """The producer ``id``, to whose transaction :data:`PLACE` was added."""
    await link.open([PLACE.topic])
    who = await init_producer(link, "id", transaction_timeout_ms=TIMEOUT_MS, deadline=time.monotonic() + 60)
    producer = Producer(
        link,
        ProducerIdentity("id", *who),
        transactions_v2=False,
        transaction_timeout_ms=TIMEOUT_MS,
        retry_seconds=60,
    )
    await producer.add([PLACE])
    return producer
