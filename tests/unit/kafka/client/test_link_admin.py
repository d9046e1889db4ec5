"""Requests by kafka-python, as librdkafka's: within their callers' time, and after brokers closed idle connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.librdkafka import (
    AdminClient,
    ConfigResource,
    ConsumerGroupTopicPartitions,
    KafkaException,
    ResourceType,
    TopicPartition,
    admin_client,
)
from srm_common.testing import FakeCluster
from tests.by_link import by_link

LIMIT_SECONDS = 0.4
TOLD = "neither took nor sent a byte for 0.4 s"


def _groups(admin: AdminClient) -> Any:
    return admin.list_consumer_groups(request_timeout=LIMIT_SECONDS).result().errors[0]


def _topics(admin: AdminClient) -> Any:
    return admin.list_topics(timeout=LIMIT_SECONDS)


def _offsets(admin: AdminClient) -> Any:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")], request_timeout=LIMIT_SECONDS)
    return asked["g"].result()


@pytest.mark.parametrize(("api", "ask"), [("ListGroups", _groups), ("Metadata", _topics), ("OffsetFetch", _offsets)])
def test_a_broker_that_falls_silent_is_given_up_when_the_callers_time_is_over(
    api: str, ask: Callable[[AdminClient], Any]
) -> None:
    with FakeCluster() as kafka:
        admin = admin_client(by_link(ClusterSettings.plaintext("a", kafka.bootstrap_servers)))
        admin.list_topics(timeout=30)
        with kafka.silence(api):
            try:
                told = ask(admin)
            except KafkaException as error:
                told = error
            assert TOLD in str(told)
        assert admin.list_topics(timeout=30).brokers


def _commit(admin: AdminClient) -> Any:
    wanted = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 1)])
    return admin.alter_consumer_group_offsets([wanted], request_timeout=30)["g"].result().topic_partitions[0].error


def _committed(admin: AdminClient) -> Any:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")], request_timeout=30)
    return asked["g"].result().topic_partitions[0].error


def _faults_of_lists(admin: AdminClient) -> Any:
    return admin.list_consumer_groups(request_timeout=30).result().errors or None


def _broker(admin: AdminClient) -> Any:
    broker = ConfigResource(ResourceType.BROKER, "1")
    return None if admin.describe_configs([broker], request_timeout=30)[broker].result() else "no settings"


@pytest.mark.parametrize("ask", [_commit, _committed, _faults_of_lists, _broker])
def test_connections_that_brokers_closed_meanwhile_are_made_again(ask: Callable[[AdminClient], Any]) -> None:
    with FakeCluster(2) as kafka:
        kafka.create_topic("t")
        admin = admin_client(by_link(ClusterSettings.plaintext("a", kafka.bootstrap_servers)))
        for _ in range(2):
            assert _faults_of_lists(admin) is None
            assert _commit(admin) is None
        kafka.go_away()
        kafka.come_back()
        assert ask(admin) is None
