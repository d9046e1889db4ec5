"""What a link knows of topics while a request for metadata is under way already, and many requests at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.library import ListGroupsRequest
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import FakeCluster

T = TypeVar("T")


def beside_a_refresh(kafka: FakeCluster, work: Callable[[ClusterLink], Awaitable[T]]) -> T:
    """Begins when a request for metadata, without the topics of ``work``, waits for its answer."""

    async def run(link: ClusterLink) -> T:
        await link.open()
        kafka.forget_requests()
        with kafka.delay(0.3, "Metadata", times=1):
            refresh = link.loop.call_soon_with_future(link.refresh)
            while not kafka.asked("Metadata"):
                await link.loop.sleep(0.01)
            found = await work(link)
            await refresh
        return found

    with ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link:
        return link.run(lambda: run(link))


def test_a_topic_is_known_though_an_older_request_does_not_name_it() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("orders", 6)
        known = beside_a_refresh(kafka, lambda link: link.know(["orders"]))
    assert known == {"orders": frozenset(range(6))}


def test_a_leader_is_known_though_an_older_request_does_not_name_the_topic() -> None:
    async def tracked(link: ClusterLink) -> int | None:
        await link.track(["orders"])
        return link.leader("orders", 0)

    with FakeCluster() as kafka:
        kafka.create_topic("orders")
        assert beside_a_refresh(kafka, tracked) == 1


def test_a_refresh_that_fails_is_followed_by_one_of_its_own() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("orders", 2)

        async def lost(link: ClusterLink) -> dict[str, frozenset[int]]:
            link.disconnect(1)
            return await link.know(["orders"])

        assert beside_a_refresh(kafka, lost) == {"orders": frozenset(range(2))}


@pytest.mark.parametrize("nodes", [1, 2])
def test_more_requests_than_a_connection_takes_at_a_time_are_all_answered(nodes: int) -> None:
    async def ask(link: ClusterLink) -> list[int]:
        await link.open()
        futures = [
            link.loop.call_soon_with_future(
                link.ask_any, lambda: ListGroupsRequest(version=4, states_filter=[], types_filter=[])
            )
            for _ in range(100)
        ]
        return [(await future).error_code for future in futures]

    with (
        FakeCluster(nodes) as kafka,
        kafka.delay(0.005, "ListGroups"),
        ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link,
    ):
        assert link.run(lambda: ask(link)) == [0] * 100


def test_what_each_broker_has_sent_is_known() -> None:
    async def ask(link: ClusterLink) -> tuple[bool, bool]:
        await link.open()
        await link.send(1, ListGroupsRequest(version=4, states_filter=[], types_filter=[]))
        before, all_before = link.manager.heard_bytes([1]), link.manager.heard_bytes()
        await link.send(2, ListGroupsRequest(version=4, states_filter=[], types_filter=[]))
        return link.manager.heard_bytes([1]) == before, link.manager.heard_bytes() > all_before

    with FakeCluster(2) as kafka, ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link:
        assert link.run(lambda: ask(link)) == (True, True)
