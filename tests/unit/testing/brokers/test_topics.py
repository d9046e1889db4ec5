"""What is read out of the logs of brokers."""

from __future__ import annotations

from srm_common.testing.brokers.topics import made_on_demand

BROKER = """\
[2026-11-22 20:00:02,000] INFO Sent auto-creation request for Set(asked, made) to the active controller. (kafka.server)
[2026-11-22 20:00:09,000] INFO Sent auto-creation request for Set(asked) to the active controller. (kafka.server)
"""
CONTROLLER = """\
[2026-11-22 20:00:01,500] INFO [QuorumController id=1] CreateTopics result(s): CreatableTopic(name='made', \
numPartitions=1, configs=[CreatableTopicConfig(name='cleanup.policy', value='compact')]): SUCCESS (org.apache.kafka)
[2026-11-22 20:00:02,000] INFO [QuorumController id=1] CreateTopics result(s): CreatableTopic(name='made', \
numPartitions=1, configs=[]): TOPIC_ALREADY_EXISTS (Topic 'made' already exists.), \
CreatableTopic(name='asked', numPartitions=1, configs=[]): SUCCESS (org.apache.kafka.controller)
"""


def test_a_topic_that_existed_when_a_young_broker_asked_was_not_made_on_demand() -> None:
    assert made_on_demand([BROKER, CONTROLLER]) == {"asked"}


def test_without_a_quorum_every_request_counts() -> None:
    assert made_on_demand([BROKER]) == {"asked", "made"}


def test_a_busy_broker_logs_its_request_after_the_controller_has_answered() -> None:
    late = BROKER.replace("20:00:02", "20:00:08")
    assert made_on_demand([late, CONTROLLER]) == {"asked"}
