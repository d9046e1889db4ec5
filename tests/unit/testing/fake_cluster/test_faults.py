"""What a test asks of a fake cluster to go wrong."""

from __future__ import annotations

import time

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.transactions.producer_ids import init_producer
from srm_common.testing import FakeCluster


def test_a_lost_request_is_not_carried_out_and_one_whose_answer_is_lost_is() -> None:
    with (
        FakeCluster() as kafka,
        ClusterLink(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as link,
    ):

        def epoch() -> int:
            async def ask() -> int:
                await link.open()
                taken = await init_producer(link, "id", transaction_timeout_ms=60_000, deadline=time.monotonic() + 60)
                return taken[1]

            return link.run(ask)

        assert epoch() == 0
        kafka.lose_request("InitProducerId")
        assert epoch() == 1
        kafka.drop_answer("InitProducerId")
        assert epoch() == 3
        assert len(kafka.asked("InitProducerId")) == 5
