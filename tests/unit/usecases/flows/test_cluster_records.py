"""What a run finds out about the topics that it copies, again and again while it lasts."""

from __future__ import annotations

from srm_common.usecases.flows.cluster_records import replicated_topics
from tests.unit.usecases.fakes import Sides


def test_nothing_else_is_asked_of_copies_than_what_a_run_needs(sides: Sides) -> None:
    sides.source.create_topic("orders", config={"max.message.bytes": "2000000"})
    sides.source.create_topic("orders-compacted", config={"cleanup.policy": "compact"})
    sides.refresh()
    sides.target.forget_requests()
    topics = {topic.upstream: topic for topic in replicated_topics(sides.clusters())}
    (request,) = sides.target.asked("DescribeConfigs")
    assert {resource.resource_name for resource in request.resources} == {"a.orders", "a.orders-compacted"}
    for resource in request.resources:
        assert set(resource.configuration_keys) == {"message.timestamp.type", "max.message.bytes", "cleanup.policy"}
    assert (topics["orders"].max_message_bytes, topics["orders"].compacted) == (2_000_000, False)
    assert (topics["orders-compacted"].max_message_bytes, topics["orders-compacted"].compacted) == (1_048_588, True)
