"""Partitions of a transaction are those that its coordinator said it added."""

from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.testing import FakeCluster
from tests.unit.kafka.transactions.producers import PLACE, began


class Forgetful(ClusterLink):
    """Leaves out the results of the first response to AddPartitionsToTxn."""

    forgot = False

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        answer = await super().send(*args, **kwargs)
        if not self.forgot and hasattr(answer, "results_by_topic_v3_and_below"):
            self.forgot = True
            answer.results_by_topic_v3_and_below = []
        return answer


def test_a_response_without_a_partition_is_no_consent() -> None:
    """Its records would have no marker, and whoever reads committed ones would not see them."""
    with (
        FakeCluster(features={"transaction.version": 1}) as kafka,
        Forgetful(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link,
    ):
        kafka.create_topic(PLACE.topic)
        with pytest.raises(RetriableFault, match="id: the coordinator does not say whether it added t-0"):
            link.run(lambda: began(link))
        assert link.forgot
        link.run(lambda: began(link))
