from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, names
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.state.flow_positions import FlowPositions
from srm_common.testing import FakeCluster

FLOW = FlowName("a", "b")
TOPIC = names.flow_state_topic("a")
RUN = names.StateKey.RUN.encode()


def test_a_topic_that_was_created_again_and_is_as_long_is_read_anew() -> None:
    with FakeCluster() as kafka, ClusterLink(ClusterSettings.plaintext("b", kafka.bootstrap_servers)) as link:
        kafka.create_topic(TOPIC)
        kafka.write(TOPIC, [(RUN, b"{")])
        link.run(lambda: link.open([TOPIC], 30))
        positions = FlowPositions(link)
        assert isinstance(link.run(lambda: positions.look([FLOW], 30))[FLOW], CorruptRecord)
        kafka.delete_topic(TOPIC)
        kafka.create_topic(TOPIC)
        kafka.write(TOPIC, [(b"other", b"{")])
        assert link.run(lambda: positions.look([FLOW], 30)) == {FLOW: None}
