"""Clusters whose brokers are upgraded one after another: node 1 is newer than node 2. A link that has asked the old one
first treats both as if they were old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import ListTransactionsResponse

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.retriable_fault import OlderBroker
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupReader
from srm_common.kafka.groups.group_watch import GroupWatch
from srm_common.kafka.log.log_facts import LogFacts, log_facts
from srm_common.kafka.transactions.active_writers import active_writers
from srm_common.kafka.transactions.coordinators import transaction_states
from srm_common.kafka.transactions.hanging_transactions import left_open
from srm_common.testing import FakeCluster
from tests.flow_settings import small_flow

_BEFORE_3 = {"OffsetFetch": 7, "FindCoordinator": 3, "ListTransactions": -1, "DescribeProducers": -1, "ListOffsets": 6}
_GROUPS = [f"g{number}" for number in range(12)]


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    with FakeCluster(2, newest_of={2: _BEFORE_3}) as cluster:
        cluster.create_topic("orders", 4)
        yield cluster


def _asked_first(kafka: FakeCluster, node: int) -> ClusterSettings:
    return ClusterSettings.plaintext("c", kafka.bootstrap_servers.split(",")[node - 1])


@pytest.mark.parametrize("first", [1, 2])
def test_offsets_of_groups_are_read_from_old_and_new_coordinators(kafka: FakeCluster, first: int) -> None:
    for number, group in enumerate(_GROUPS):
        kafka.commit(group, {TopicPartition("orders", 0): number}, "a note")
    expected = {group: {TopicPartition("orders", 0): CommittedOffset(n, "a note")} for n, group in enumerate(_GROUPS)}
    cluster = _asked_first(kafka, first)
    offsets, unread = GroupReader(cluster).offsets(_GROUPS)
    assert ({one.group: one.offsets for one in offsets}, unread) == (expected, [])
    with GroupWatch(cluster) as watch:
        offsets, faults = watch.committed(lambda _: True)
        assert ({one.group: one.offsets for one in offsets}, faults) == (expected, [])
    versions = {(call.node, call.version) for call in kafka.requests if call.api == "OffsetFetch"}
    assert versions == {(1, 8 if first == 1 else 7), (2, 7)}


@pytest.mark.parametrize("first", [1, 2])
def test_a_leader_that_knows_no_local_start_has_all_on_its_own_disk(kafka: FakeCluster, first: int) -> None:
    with ClusterLink(_asked_first(kafka, first)) as link:

        async def ask() -> list[LogFacts]:
            await link.open(["orders"])
            return [await log_facts(link, TopicPartition("orders", number)) for number in range(4)]

        assert link.run(ask) == [LogFacts(0, 0, 0, False)] * 4


@pytest.mark.parametrize("first", [1, 2])
def test_transactions_are_listed_by_the_brokers_that_can(kafka: FakeCluster, first: int) -> None:
    flow = small_flow(_asked_first(kafka, first), _asked_first(kafka, first), "orders", retry_timeout_seconds=3.0)
    assert active_writers(flow) == []
    assert {call.node for call in kafka.requests if call.api == "ListTransactions"} == ({1} if first == 1 else set())


@pytest.mark.parametrize(
    ("answers", "missed"),
    [
        ({1: OlderBroker("too old"), 2: RetriableFault("gone")}, False),
        ({1: OlderBroker("too old"), 2: ListTransactionsResponse(), 3: RetriableFault("gone")}, True),
        ({1: RetriableFault("gone")}, True),
    ],
)
def test_a_broker_that_is_gone_is_missed_unless_all_others_are_too_old(
    kafka: FakeCluster, answers: dict[int, Any], missed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_each(_link: ClusterLink, _make_request: object) -> dict[int, Any]:
        return answers

    monkeypatch.setattr(ClusterLink, "ask_each", ask_each)
    with ClusterLink(_asked_first(kafka, 1)) as link:

        async def ask() -> dict[str, str]:
            await link.open()
            return await transaction_states(link, 0.0, "not all are known")

        if missed:
            with pytest.raises(UnreachableCluster, match="not all are known: gone"):
                link.run(ask)
        else:
            assert link.run(ask) == {}


@pytest.mark.parametrize("first", [1, 2])
def test_leaders_that_know_no_producers_hide_no_open_transaction(kafka: FakeCluster, first: int) -> None:
    with ClusterLink(_asked_first(kafka, first)) as link:

        async def ask() -> dict[TopicPartition, int]:
            await link.open(["orders"])
            return await left_open(link, [TopicPartition("orders", number) for number in range(4)], 7, 0.0)

        assert link.run(ask) == {}
