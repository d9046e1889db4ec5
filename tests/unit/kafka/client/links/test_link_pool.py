"""Connections that one link leaves to the next."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.library import Errors, MetadataRequest
from srm_common.kafka.client.links import broker_link
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.testing import FakeCluster
from tests.simulation.idle_loop import left_in

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    with FakeCluster() as kafka:
        kafka.create_topic("orders")
        yield kafka


@pytest.fixture
def cluster(kafka: FakeCluster) -> ClusterSettings:
    return ClusterSettings.plaintext("a", kafka.bootstrap_servers)


@pytest.fixture
def pool() -> Iterator[LinkPool]:
    with LinkPool() as pool:
        yield pool


def end(cluster: ClusterSettings, pool: LinkPool, part: str = "one", place: TopicPartition = ORDERS) -> int:
    with ClusterLink(cluster, part=part, pool=pool) as link:
        found, faults = link.end_offsets([place], timeout_seconds=5.0)
    assert faults == {}
    return found[place]


def test_links_that_follow_each_other_connect_once(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    assert [end(cluster, pool, part) for part in ("one", "two")] == [0, 0]
    assert kafka.connections == {1: 1}
    names = [call.client_id for call in kafka.requests if call.api == "ListOffsets"]
    assert names == ["srm.one", "srm.two"]


def test_what_has_changed_meanwhile_is_seen(kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool) -> None:
    new = TopicPartition("new", 0)
    with ClusterLink(cluster, pool=pool) as link:
        link.run(lambda: link.open(["new"]))
        assert link.leader(*new) is None
    kafka.create_topic("new")
    assert end(cluster, pool, place=new) == 0
    kafka.delete_topic("new")
    with ClusterLink(cluster, pool=pool) as link:
        link.run(lambda: link.open(["new"]))
        assert link.leader(*new) is None
    assert kafka.connections == {1: 1}


def test_a_link_asks_for_its_own_topics_only(kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool) -> None:
    kafka.create_topic("others")
    end(cluster, pool)
    kafka.forget_requests()
    end(cluster, pool, place=TopicPartition("others", 0))
    asked = {topic.name for request in kafka.asked("Metadata") for topic in request.topics}
    assert asked == {"others"}


def test_links_at_the_same_time_have_connections_of_their_own(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    with ClusterLink(cluster, pool=pool) as link:
        link.run(link.open)
        ended: list[int] = []
        other = threading.Thread(target=lambda: ended.append(end(cluster, pool)))
        other.start()
        other.join(60)
        assert ended == [0]
        assert link.start_offsets([ORDERS]) == ({ORDERS: 0}, {})
    assert kafka.connections == {1: 2}


def test_a_cluster_that_came_back_is_connected_to_again(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    end(cluster, pool)
    kafka.go_away()
    kafka.come_back()
    assert end(cluster, pool) == 0


def test_a_cluster_that_is_gone_is_an_error_of_the_next_link(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    end(cluster, pool)
    kafka.go_away()
    with ClusterLink(cluster, pool=pool) as link, pytest.raises(UnreachableCluster, match="not reachable"):
        link.run(lambda: link.open(timeout_seconds=0.5))


def test_a_cluster_that_is_silent_is_waited_for_as_long_as_by_a_new_link(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    end(cluster, pool)
    with (
        kafka.silence(),
        ClusterLink(cluster, pool=pool) as link,
        pytest.raises(UnreachableCluster, match=r"within 2 s"),
    ):
        link.run(lambda: link.open(timeout_seconds=2.0))
    assert end(cluster, pool) == 0


def test_connections_that_are_kept_may_answer_slowly(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer names the leaders of all the link's topics."""
    end(cluster, pool)
    monkeypatch.setattr(broker_link, "_STILL_THERE_SECONDS", 0.001)
    arriving = count()
    monkeypatch.setattr(FrameConnectionManager, "heard_bytes", lambda manager, nodes=None: next(arriving))
    with kafka.delay(0.2, "Metadata", times=1):
        assert end(cluster, pool) == 0
    assert kafka.connections == {1: 1}


def test_connections_are_handed_on_as_long_as_they_may_be_idle(cluster: ClusterSettings, pool: LinkPool) -> None:
    with ClusterLink(cluster, pool=pool) as link:
        link.run(link.open)
        assert link.manager.hand_on("another", 1000)
        link.manager.config["connections_max_idle_ms"] = 0
        assert not link.manager.hand_on("a third", 1000)


def test_a_link_with_a_fault_leaves_nothing(kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool) -> None:
    with ClusterLink(cluster, pool=pool) as link:
        link.run(link.open)

        async def fail() -> None:
            raise RetriableFault("on purpose")

        with pytest.raises(RetriableFault):
            link.run(fail)
    assert pool.take(cluster) is None


def test_a_link_that_owes_an_answer_leaves_nothing(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    with ClusterLink(cluster, pool=pool) as link:
        link.run(lambda: link.open(["orders"]))
        request = MetadataRequest(version=10, topics=[], allow_auto_topic_creation=False)

        async def send() -> None:
            await link.post(1, request)

        link.run(send)
    assert pool.take(cluster) is None


def test_a_link_is_closed_once(cluster: ClusterSettings, pool: LinkPool) -> None:
    first = ClusterLink(cluster, pool=pool)
    first.run(first.open)
    first.close()
    with ClusterLink(cluster, pool=pool) as second:
        second.run(second.open)
        first.close()
        assert second.start_offsets([ORDERS]) == ({ORDERS: 0}, {})
        with pytest.raises(RuntimeError, match="closed"):
            first.run(first.open)


def test_other_settings_have_other_connections(kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool) -> None:
    end(cluster, pool)
    end(replace(cluster, kafka_python={**cluster.kafka_python, "reconnect_backoff_ms": 70}), pool)
    assert kafka.connections == {1: 2}


def test_a_pool_that_was_closed_takes_nothing_from_before(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    with ClusterLink(cluster, pool=pool) as link:
        link.run(link.open)
        pool.close()
    assert pool.take(cluster) is None
    end(cluster, pool)
    assert pool.take(cluster) is not None


def test_a_broker_that_owes_an_answer_costs_no_connections_to_others(name: str) -> None:
    with FakeCluster(2) as kafka, LinkPool() as pool:
        kafka.create_topic(name, 2)
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers)
        with ClusterLink(cluster, pool=pool) as link:
            link.end_offsets([TopicPartition(name, partition) for partition in range(2)])
            before = kafka.connections

            async def send() -> None:
                await link.post(1, MetadataRequest(version=10, topics=[], allow_auto_topic_creation=False))

            link.run(send)
        with ClusterLink(cluster, pool=pool) as link:
            link.end_offsets([TopicPartition(name, partition) for partition in range(2)])
        assert kafka.connections == {1: before[1] + 1, 2: before[2]}


def test_what_a_link_has_seen_of_brokers_is_not_held_against_them_later(
    kafka: FakeCluster, cluster: ClusterSettings, pool: LinkPool
) -> None:
    with ClusterLink(cluster, pool=pool) as link:
        link.run(link.open)
        manager = link.manager
        manager._connecting_failed(1, Errors.SaslAuthenticationFailedError("on purpose"))
        manager.update_backoff(1)
    assert end(cluster, pool) == 0
    assert kafka.connections == {1: 1}
    assert manager.last_fault is None


def test_connections_that_were_closed_leave_nothing_in_a_shared_loop(
    kafka: FakeCluster, cluster: ClusterSettings
) -> None:
    with LinkPool(one_loop=True) as pool:
        loop = pool.event_loop()
        link = ClusterLink(cluster, pool=pool)
        link.run(link.open)
        link.close(keep=False)
        with pytest.raises(Errors.NodeNotReadyError, match="is closed"):
            link.manager.get_connection(1)
        manager = weakref.ref(link.manager)
        del link
        loop.run(lambda: loop.sleep(0.01))
        gc.collect()
        assert manager() is None


@pytest.mark.parametrize("idle_ms", [0, 50])
def test_connections_that_nobody_uses_are_closed(kafka: FakeCluster, cluster: ClusterSettings, idle_ms: int) -> None:
    cluster = replace(cluster, kafka_python={**cluster.kafka_python, "connections_max_idle_ms": idle_ms})
    with ClusterLink(cluster) as link:
        link.run(lambda: link.open(["orders"]))
        assert link.connection(1) is not None

        async def rest() -> None:
            while link.connection(1) is not None:
                await link.loop.sleep(0.01)

        link.run(rest)
        assert link.start_offsets([ORDERS]) == ({ORDERS: 0}, {})


def test_a_refresh_that_was_cancelled_does_not_keep_the_next_link_waiting(
    kafka: FakeCluster, cluster: ClusterSettings
) -> None:
    with LinkPool(one_loop=True) as pool:
        with ClusterLink(cluster, pool=pool) as link:
            link.run(link.open)

            async def cancel() -> None:
                refresh = link.loop.call_soon(link.refresh)
                joined = link.loop.call_soon_with_future(link.manager.cluster.refresh_metadata)
                await link.loop.sleep(0.05)
                link.loop.cancel(refresh)
                with pytest.raises(Errors.Cancelled):
                    await joined

            with kafka.silence("Metadata"):
                link.run(cancel)
        with ClusterLink(cluster, pool=pool) as link:
            link.run(link.open)
            assert not link.manager.cluster.metadata_refresh_in_progress
            assert left_in(link.loop) == set()
