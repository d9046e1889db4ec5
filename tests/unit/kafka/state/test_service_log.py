from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import SERVICES_TOPIC
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.errors import UnreachableCluster
from srm_common.kafka.state.service_log import ServiceLog, read_services
from srm_common.testing import FakeCluster


def test_a_topic_that_was_deleted_is_made_again() -> None:
    service = Advertisement.of("service", "http://localhost:1", ["a"], 1000)
    with FakeCluster() as kafka:
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers)
        log = ServiceLog(cluster, 1, timeout_seconds=1.0)
        log.renew(service)
        kafka.delete_topic(SERVICES_TOPIC)
        with pytest.raises(UnreachableCluster):
            log.renew(service)
        log.renew(service)
        ((found,), unreadable) = read_services(cluster, timeout_seconds=30.0)
        assert (found.url, unreadable) == (service.url, [])
