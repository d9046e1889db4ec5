"""What the driver learns of the source's logs."""

from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.source_view import SourceView
from srm_common.testing import FakeCluster
from tests.flow_settings import small_flow

T = TopicPartition("t", 0)


def test_a_new_leader_on_the_same_node_is_known_by_the_end_that_it_lists() -> None:
    """It was elected with a shorter log, which has grown to the old length. As no request is refused, metadata are not
    refreshed."""
    with FakeCluster(nodes=1) as kafka:
        kafka.create_topic(T.topic)
        kafka.write(T.topic, [(None, b"old")] * 3)
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers)
        with SourceView(small_flow(cluster, cluster, T.topic)) as view:
            assert (view.ends([T]), view.leader_epoch(T)) == (({T: 3}, {}), 0)
            kafka.move_leader(T.topic, keep=2)
            kafka.write(T.topic, [(None, b"new")])
            assert view.leader_epoch(T) == 0
            assert (view.ends([T]), view.leader_epoch(T)) == (({T: 3}, {}), 1)


def test_the_epoch_of_a_topic_is_not_that_of_its_successor() -> None:
    """Metadata may be from before it was created, and name the epoch of the former topic."""
    with FakeCluster(nodes=1) as kafka:
        kafka.create_topic(T.topic)
        for _ in range(7):
            kafka.move_leader(T.topic)
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers)
        with SourceView(small_flow(cluster, cluster, T.topic)) as view:
            view.ends([T])
            former = view.topic_ids([T.topic])[T.topic]
            assert (view.leader_epoch_of(T, former), view.leader_epoch_of(T, None)) == (7, -1)
            kafka.delete_topic(T.topic)
            kafka.create_topic(T.topic)
            now = view.topic_ids([T.topic])[T.topic]
            assert view.leader_epoch(T) == 7, "as long as no request was refused"
            assert view.leader_epoch_of(T, now) == -1
            view.saw({T: 7}, {T.topic: now})
            for _ in range(2):  # with the first answer the library forgets the former epochs
                view.partitions([T.topic])
            assert (view.leader_epoch_of(T, now), view.ends([T])) == (0, ({T: 0}, {}))
