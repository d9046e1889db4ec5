"""Which leaders a link believes in, while a broker that is cut off from its controller goes on naming those it knew."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from kafka.errors import SaslAuthenticationFailedError

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import PartitionError
from srm_common.kafka.client.connections import link_metadata, newest_epochs
from srm_common.kafka.client.connections.dialing import SILENT
from srm_common.kafka.client.links.link import LATEST, ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.testing import FakeCluster
from tests.chosen_broker import answered_by

T = TopicPartition("t", 0)


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    """Its node 1 leads t-0, and is cut off; node 2 leads instead, and has a second record."""
    with FakeCluster(nodes=3) as cluster:
        cluster.create_topic(T.topic, replication_factor=3)
        cluster.write(T.topic, [(None, b"old")])
        cluster.isolation.begin(1)
        cluster.write(T.topic, [(None, b"new")])
        yield cluster


def opened(
    kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch, *, only: int, pool: LinkPool | None = None
) -> ClusterLink:
    """A link that is answered by the node ``only``, unless it asks all."""
    address = kafka.bootstrap_servers.split(",")[only - 1]
    answered_by(monkeypatch, address)
    link = ClusterLink(ClusterSettings.plaintext("a", address), pool=pool)
    link.run(lambda: link.open([T.topic]))
    return link


def end(link: ClusterLink) -> int:
    found, faults = link.run(lambda: link.offsets([T], LATEST, timeout_seconds=5.0))
    assert faults == {}
    return found[T]


def test_what_a_broker_that_is_cut_off_says_is_told_from_what_the_others_say(
    kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault that all this is about."""
    for node, seen in ((1, (1, 1)), (2, (2, 2))):
        with opened(kafka, monkeypatch, only=node) as link:
            assert (link.leader(*T), end(link)) == seen


def test_all_brokers_together_know_the_leader(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(kafka, monkeypatch, only=1) as link:
        link.run(link.agree)
        assert (link.leader(*T), end(link)) == (2, 2)


def test_an_earlier_leader_is_not_believed(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's links tell each other, though each asks for the leaders itself."""
    with LinkPool() as pool:
        with opened(kafka, monkeypatch, only=2, pool=pool) as knows:
            assert knows.leader(*T) == 2
        pool.close_idle()
        with opened(kafka, monkeypatch, only=1, pool=pool) as link:
            assert link.leader(*T) is None
            fault = link.leaderless(*T)
            assert isinstance(fault, PartitionError)
            assert (
                "t-0 at a has no leader that can be relied on: brokers name 1 with leader epoch 0, but epoch 1"
                in str(fault)
            )
            # All are asked when it is needed.
            assert end(link) == 2


def test_epochs_that_were_read_tell_too(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(kafka, monkeypatch, only=1) as link:
        link.saw(T, -1)
        link.saw(T, 0)
        assert link.leader(*T) == 1
        link.saw(T, 1)
        assert link.leader(*T) is None
        assert end(link) == 2
        kafka.isolation.end(1)
        link.run(link.refresh)
        assert (link.leader(*T), end(link)) == (2, 2)


def test_while_only_that_broker_answers_there_is_no_leader(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(kafka, monkeypatch, only=1) as link:
        link.saw(T, 1)
        for node in (2, 3):
            kafka.stop(node)
        found, faults = link.run(lambda: link.offsets([T], LATEST, timeout_seconds=0.5))
        assert found == {}
        assert "has no leader that can be relied on" in faults[T]


def test_another_topic_of_the_same_name_begins_anew(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(kafka, monkeypatch, only=2) as link:
        assert link.leader(*T) == 2
        kafka.delete_topic(T.topic)
        kafka.create_topic(T.topic, replication_factor=2)
        link.run(link.refresh)
        assert link.leader(*T) == kafka._topics.partition(*T).leader


def test_of_topics_without_ids_the_newest_answer_counts(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.set_topic_id(T.topic, uuid.UUID(int=0))
    with opened(kafka, monkeypatch, only=2) as link:
        link.saw(T, 7)
        link.run(link.refresh)
        assert link.leader(*T) == 2


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds after which what no broker names is given up."""
    for module in (newest_epochs, link_metadata):
        monkeypatch.setattr(module, "SETTLED_SECONDS", 0.2)
    return 0.2


def test_an_epoch_that_no_broker_names_is_given_up(
    kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch, settled: float
) -> None:
    """As after the metadata were restored from a backup, with the same topic ids."""
    kafka.isolation.end(1)
    with opened(kafka, monkeypatch, only=2) as link:
        link.saw(T, 9)
        assert link.leader(*T) is None
        began = time.monotonic()
        assert end(link) == 2
        assert time.monotonic() - began >= settled
        link.saw(T, 9)
        assert link.leader(*T) == 2
        kafka.move_leader(T.topic, node=3)
        link.run(link.refresh)
        assert link.leader(*T) == 3, "it is of an epoch before the one that was given up, and the newest"


def test_an_epoch_is_not_given_up_while_a_broker_is_silent(
    kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch, settled: float
) -> None:
    """Of those that are in the metadata; it may be the one that knows."""
    kafka.isolation.end(1)
    with opened(kafka, monkeypatch, only=2) as link:
        link.saw(T, 9)
        SILENT.note(kafka._server.places[3])
        try:
            found, _ = link.run(lambda: link.offsets([T], LATEST, timeout_seconds=1.0))
        finally:
            SILENT.clear()
        assert found == {}


def test_a_refused_login_is_left_to_who_uses_the_broker(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(kafka, monkeypatch, only=2) as link:
        refusal = SaslAuthenticationFailedError("no")
        link.manager.refused_logins[3] = refusal
        link.run(link.agree)
        assert link.manager.refused_logins == {3: refusal}


def test_silent_brokers_are_remembered(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_metadata, "_AGREEING_SECONDS", 0.2)
    with opened(kafka, monkeypatch, only=2) as link:
        for broker in link.manager.cluster.brokers():
            SILENT.forget((broker.host, broker.port))
        with kafka.silence("Metadata"):
            link.run(link.agree)
        try:
            assert all((broker.host, broker.port) in SILENT for broker in link.manager.cluster.brokers())
        finally:
            SILENT.clear()


def test_who_is_sent_back_to_the_bootstrap_servers_asks_them() -> None:
    """KIP-1102. One of them has moved to brokers of another name."""
    with FakeCluster() as old, FakeCluster() as new:
        clusters = {cluster.bootstrap_servers: cluster for cluster in (old, new)}
        with ClusterLink(ClusterSettings.plaintext("a", ",".join(clusters))) as link:

            async def brokers() -> list[str]:
                await link.refresh()
                return [f"{broker.host}:{broker.port}" for broker in link.manager.cluster.brokers()]

            link.run(link.open)
            (first,) = link.run(brokers)
            with clusters.pop(first).refuse("Metadata", 129):
                deadline = time.monotonic() + 60
                while link.run(brokers) != [*clusters] and time.monotonic() < deadline:
                    pass
            assert link.run(brokers) == [*clusters]
