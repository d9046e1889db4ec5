"""What is known of a commit when the cluster refuses this client before an answer has come."""

from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import AccessDenied
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.producer import UncertainCommit
from srm_common.testing import FakeCluster
from tests.unit.kafka.transactions.producers import PLACE, began


@pytest.mark.parametrize("sent", [True, False])
def test_a_commit_is_uncertain_once_it_was_sent(sent: bool) -> None:
    """The transaction may be committed: whoever copied its records again without looking would double them."""
    with (
        FakeCluster(features={"transaction.version": 1}) as kafka,
        ClusterLink(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link,
    ):
        kafka.create_topic(PLACE.topic)

        async def work() -> None:
            producer = await began(link)
            if sent:
                kafka.drop_answer("EndTxn")
            else:
                link.forget_coordinator("id")
            kafka.refuse("FindCoordinator", codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            with pytest.raises(
                UncertainCommit if sent else AccessDenied, match="does not allow the transactional id id"
            ):
                await producer.commit()

        link.run(work)
        assert kafka.transactions() == {"id": "CompleteCommit" if sent else "Ongoing"}
