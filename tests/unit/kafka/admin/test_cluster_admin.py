from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topics.actions import CreateTopic
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster import topic_requests
from srm_common.usecases.topics.changes import Changed, create


def _topics(cluster: ClusterSettings) -> object:
    return dict(ClusterAdmin(cluster).topics().partitions)


def _facts(cluster: ClusterSettings) -> object:
    return {topic: facts.partitions for topic, facts in ClusterAdmin(cluster).describe_topics(["orders"]).items()}


def _partitions(cluster: ClusterSettings) -> object:
    with StateReader(cluster) as reader, reader.session() as session:
        session.partitions("orders")
        return {"orders": session.partitions("orders")}


def _ids(cluster: ClusterSettings) -> object:
    async def ask(link: ClusterLink) -> dict[str, Any]:
        await link.open()
        return await topic_ids(link, ["orders"], 10.0)

    with ClusterLink(cluster) as link:
        return {topic: 2 if found else 0 for topic, found in link.run(lambda: ask(link)).items()}


class TestLargeChanges:
    """A controller takes 10,000 changes in one request, else none of them."""

    def test_topics_with_many_partitions_are_created_by_several_requests(self) -> None:
        actions = [CreateTopic("a", f"t{number}", 400, 1, (), "") for number in range(26)]
        with FakeCluster() as kafka:
            admin = ClusterAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers))
            assert admin.create_topics(actions) == [None] * 26
            assert kafka.topics() == {f"t{number}": 400 for number in range(26)}

    def test_a_controller_that_takes_less_is_asked_for_less(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(topic_requests, "_MOST_RECORDS", 100)
        limits = (("retention.ms", "5"),)
        actions = [
            CreateTopic("a", f"t{number}", 10, 1, limits, "", (), frozenset({"retention.ms"})) for number in range(30)
        ]
        actions.append(CreateTopic("a", "huge", 99, 1, limits, "", (), frozenset({"retention.ms"})))
        with FakeCluster() as kafka:
            *done, huge = create(ClusterAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers)), actions)
            assert done == [Changed(None)] * 30
            assert kafka.topic_config("t29") == {"retention.ms": "5"}
            assert huge.fault is not None
            assert (huge.fault.code(), huge.note, "huge" in kafka.topics()) == (44, None, False)


@pytest.mark.parametrize("ask", [_topics, _facts, _partitions, _ids])
def test_a_broker_that_does_not_know_its_cluster_yet_does_not_count(ask: Callable[[ClusterSettings], object]) -> None:
    """With ZooKeeper, one that has just started answers so until the controller has told it of brokers and topics."""
    with FakeCluster() as kafka:
        kafka.create_topic("orders", 2)
        known = kafka._topics
        nodes, topics = dict(known.nodes), dict(known.topics)

        def forget() -> None:
            known.nodes.clear()
            known.topics.clear()

        def learn() -> None:
            known.nodes.update(nodes)
            known.topics.update(topics)

        kafka.after(1, "Metadata").do(forget)
        kafka.after(2, "Metadata").do(learn)
        assert ask(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) == {"orders": 2}
