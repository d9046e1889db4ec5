from __future__ import annotations

import time

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.transactions.hanging_transactions import left_open
from srm_common.testing import FakeCluster
from srm_common.wire.batches.batch import TRANSACTIONAL, stamp
from srm_common.wire.state.plain_records import plain_records

_PRODUCER = 7


def test_leaders_are_asked_about_open_transactions_at_once() -> None:
    nodes, seconds = 6, 1.0
    body = plain_records([(b"k", b"v")])
    with (
        FakeCluster(nodes) as kafka,
        ClusterLink(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link,
    ):
        kafka.create_topic("orders", nodes)
        places = [TopicPartition("orders", number) for number in range(nodes)]
        for number in range(nodes):
            kafka.log("orders", number).append(stamp(TRANSACTIONAL, 0, 1, 1, 1, body, _PRODUCER, 0, 0) + body, 1)
        link.run(lambda: link.open(["orders"]))
        with kafka.delay(seconds, "DescribeProducers"):
            began = time.monotonic()
            found = link.run(lambda: left_open(link, places, _PRODUCER, wait_seconds=0))
            took = time.monotonic() - began
    assert found == dict.fromkeys(places, 0)
    assert seconds <= took < (nodes - 1) * seconds
