"""A coordinator whose markers take long, as while the leader of a partition is away, is asked now and then."""

from __future__ import annotations

import time

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.transactions.producer import init_producer
from srm_common.testing import FakeCluster
from tests.unit.kafka.transactions.producers import PLACE, TIMEOUT_MS, began

_MARKER_SECONDS = 1.5
#: Pauses that grow to 0.1 s come to half of that; those of 3 ms, or 9, to more.
_MOST_REQUESTS = 45


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "InitProducerId", "EndTxn"])
def test_it_is_not_asked_every_few_milliseconds(api: str) -> None:
    with (
        FakeCluster(features={"transaction.version": 1}, marker_seconds=lambda: _MARKER_SECONDS) as kafka,
        ClusterLink(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link,
    ):
        kafka.create_topic(PLACE.topic)

        async def work() -> None:
            producer = await began(link)
            if api == "EndTxn":
                # Asked again while the markers are written.
                kafka.drop_answer(api)
            await producer.commit()
            if api == "AddPartitionsToTxn":
                await producer.add([PLACE])
            elif api == "InitProducerId":
                await init_producer(link, "id", transaction_timeout_ms=TIMEOUT_MS, deadline=time.monotonic() + 60)

        link.run(work)
        assert 2 < len(kafka.asked(api)) < _MOST_REQUESTS
