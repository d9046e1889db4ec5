"""Requests by kafka-python keep the limits of time that their callers give, as librdkafka's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.librdkafka import AdminClient, ConsumerGroupTopicPartitions, KafkaException, admin_client
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
