"""What a flow remembers, read while a run writes to the same topic."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import StateUnavailable
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.slots.state_batches import produce_state
from srm_common.testing import FakeCluster
from tests.flow_settings import small_flow
from tests.unit.kafka.transactions.producers import began

HOME = TopicPartition("srm-flow-state.a.internal", 0)


def test_what_was_written_after_a_transaction_began_is_seen_once_it_has_ended() -> None:
    with FakeCluster(features={"transaction.version": 1}) as kafka:
        kafka.create_topic(HOME.topic, config={"cleanup.policy": "compact"})
        kafka.create_topic("t")
        cluster = ClusterSettings.plaintext("b", kafka.bootstrap_servers)
        flow = small_flow(ClusterSettings.plaintext("a", kafka.bootstrap_servers), cluster, "t")
        with ClusterLink(cluster) as link, FlowState(flow) as state, ThreadPoolExecutor() as pool:

            async def write() -> Producer:
                producer = await began(link)
                await producer.add([HOME])
                await link.track({HOME.topic})
                await produce_state(producer, link, HOME, [(b"other", b"{}", ())], 10_000)
                return producer

            state.write("move", 1)
            run = link.run(write)
            state.write("move", 2)
            assert state.read("move") == 1, "the run holds it back"
            with pytest.raises(StateUnavailable, match=r"srm-flow-state\.a\.internal"):
                state.read("move", stable_within_seconds=0.1)
            reading = pool.submit(state.read, "move", stable_within_seconds=60)
            time.sleep(0.2)
            assert not reading.done()
            link.run(run.commit)
            assert reading.result(60) == 2
