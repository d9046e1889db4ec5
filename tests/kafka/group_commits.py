"""Consumer groups of real brokers, for tests."""

from __future__ import annotations

import time

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from tests.contract.parts import Cluster


def commit(kafka: Cluster, group: str, *offsets: TopicPartition) -> None:
    """Set a group's offsets without members.

    Retried: a coordinator that was just made refuses, and says so only for each partition, or does not answer in time.
    """
    request = [ConsumerGroupTopicPartitions(group, list(offsets))]
    deadline = time.monotonic() + 180
    while True:
        try:
            answer = kafka.admin().alter_consumer_group_offsets(request)[group].result()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            continue
        if not any(place.error for place in answer.topic_partitions):
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)
