from __future__ import annotations

import pytest
from confluent_kafka import Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import ConnectNames, driver_transactional_id, task_transactional_id
from srm_common.errors import UnreachableCluster
from srm_common.kafka.transactions.active_writers import active_writers
from srm_common.testing import FakeCluster
from tests.flow_settings import small_flow


def _flow(kafka: FakeCluster) -> FlowSettings:
    source, target = (ClusterSettings.plaintext(name, kafka.bootstrap_servers) for name in ("source", "target"))
    return small_flow(source, target, "orders", retry_timeout_seconds=5.0)


def test_coordinators_that_are_loading_are_asked_again() -> None:
    with FakeCluster(2) as kafka:
        flow = _flow(kafka)
        mirror_maker = ConnectNames.dedicated(flow.name)
        with (
            kafka.refuse("ListTransactions", 14, times=2) as first,
            kafka.refuse("ListGroups", 14, times=2) as second,
            kafka.refuse("DescribeGroups", 14, times=2) as third,
        ):
            assert active_writers(flow, mirror_maker) == []
        assert [fault.times for fault in (first, second, third)] == [0, 0, 0]


def test_an_answer_that_stays_is_not_asked_for_again() -> None:
    with (
        FakeCluster() as kafka,
        kafka.refuse("ListGroups", 31),
        pytest.raises(UnreachableCluster, match="CLUSTER_AUTHORIZATION_FAILED"),
    ):
        active_writers(_flow(kafka))


@pytest.mark.parametrize("edit", [True, False])
def test_the_markers_of_an_edit_are_waited_for_and_those_of_a_slot_are_a_sign(edit: bool) -> None:
    # Looked at once, a slot's markers are still away; those of an edit come while they are waited for.
    with FakeCluster(marker_seconds=lambda: 0.5 if edit else 60.0) as kafka:
        flow = _flow(kafka)
        name = driver_transactional_id(flow.name) if edit else task_transactional_id(flow.name, 3)
        kafka.create_topic("state")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("state", b"v")
        producer.commit_transaction(10)
        found = [sign.split(" is open")[0] for sign in active_writers(flow)]
        assert found == ([] if edit else [f"a transaction of '{name}'"])
