"""A request to commit that arrives long after it was given up ends no other transaction."""

from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.library import EndTxnRequest
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol import codes
from srm_common.testing import FakeCluster
from tests.unit.kafka.transactions.producers import PLACE, began


def test_the_transaction_after_a_repeated_commit_has_an_epoch_of_its_own() -> None:
    """Otherwise its first records would be committed without their offsets, and copied again."""
    with (
        FakeCluster(features={"transaction.version": 1}) as kafka,
        ClusterLink(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link,
    ):
        kafka.create_topic(PLACE.topic)

        async def work() -> int:
            producer = await began(link)
            late = EndTxnRequest(
                version=3,
                transactional_id="id",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=True,
            )
            kafka.drop_answer("EndTxn")
            assert await producer.commit(), "it was repeated"
            await producer.add([PLACE])
            answer = await link.send(await link.coordinator("id"), late)
            return int(answer.error_code)

        assert link.run(work) in codes.FENCED
        assert kafka.transactions() == {"id": "Ongoing"}
