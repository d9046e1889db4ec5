from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.replication.driver.ownership import Ownership
from srm_common.testing import FakeCluster
from tests.flow_settings import small_flow


@pytest.mark.parametrize("first", [1, 2])
def test_a_flow_is_taken_while_its_target_is_upgraded(first: int) -> None:
    old = {"ListTransactions": -1, "FindCoordinator": 3}
    with FakeCluster(2, features={"transaction.version": 0}, newest_of={2: old}) as kafka:
        cluster = ClusterSettings.plaintext("west", kafka.bootstrap_servers.split(",")[first - 1])
        with Ownership.take(small_flow(cluster, cluster, "orders"), 8, 8, timeout_seconds=5) as owned:
            assert len(owned.identities) == 8
        assert [call for call in kafka.requests if call.node == 2 and call.api == "InitProducerId"]
        assert not [call for call in kafka.requests if call.node == 2 and call.api == "ListTransactions"]
