"""Requests by links: within their callers' time, after brokers closed idle connections, and while leaders move."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.librdkafka import (
    ConfigResource,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    ResourceType,
    TopicPartition,
)
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.client.links.link_admin import LinkAdmin
from srm_common.testing import FakeCluster

LIMIT_SECONDS = 0.4
TOLD = "for 0.4 s|within 0.4 s"


def _groups(admin: LinkAdmin) -> Any:
    return admin.list_consumer_groups(request_timeout=LIMIT_SECONDS).result().errors[0]


def _topics(admin: LinkAdmin) -> Any:
    return admin.list_topics(timeout=LIMIT_SECONDS)


def _offsets(admin: LinkAdmin) -> Any:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")], request_timeout=LIMIT_SECONDS)
    return asked["g"].result()


@pytest.mark.parametrize(("api", "ask"), [("ListGroups", _groups), ("Metadata", _topics), ("OffsetFetch", _offsets)])
def test_a_broker_that_falls_silent_is_given_up_when_the_callers_time_is_over(
    api: str, ask: Callable[[LinkAdmin], Any]
) -> None:
    with FakeCluster() as kafka:
        admin = LinkAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers))
        admin.list_topics(timeout=30)
        with kafka.silence(api):
            try:
                told = ask(admin)
            except (KafkaException, UnreachableCluster) as error:
                told = error
            assert re.search(TOLD, str(told))
        assert admin.list_topics(timeout=30).brokers


def _commit(admin: LinkAdmin) -> Any:
    wanted = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 1)])
    (place,) = admin.alter_consumer_group_offsets([wanted], request_timeout=30)["g"].result().topic_partitions or []
    return place.error


def _committed(admin: LinkAdmin) -> Any:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")], request_timeout=30)
    (place,) = asked["g"].result().topic_partitions or []
    return place.error


def _faults_of_lists(admin: LinkAdmin) -> Any:
    return admin.list_consumer_groups(request_timeout=30).result().errors or None


def _broker(admin: LinkAdmin) -> Any:
    broker = ConfigResource(ResourceType.BROKER, "1")
    return None if admin.describe_configs([broker], request_timeout=30)[broker].result() else "no settings"


@pytest.mark.parametrize("ask", [_commit, _committed, _faults_of_lists, _broker])
def test_connections_that_brokers_closed_meanwhile_are_made_again(ask: Callable[[LinkAdmin], Any]) -> None:
    with FakeCluster(2) as kafka:
        kafka.create_topic("t")
        admin = LinkAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers))
        for _ in range(2):
            assert _faults_of_lists(admin) is None
            assert _commit(admin) is None
        kafka.go_away()
        kafka.come_back()
        assert ask(admin) is None


_NOT_LEADER, _UNKNOWN = 6, 3


def test_a_leader_on_its_move_is_asked_again() -> None:
    with FakeCluster(2) as kafka:
        kafka.create_topic("t", partitions=2)
        admin = LinkAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers))
        wanted = {Place("t", 0): LATEST, Place("t", 1): LATEST, Place("t", 7): LATEST}
        kafka.refuse("ListOffsets", _NOT_LEADER, times=2)
        errors = admin.list_offsets(wanted, committed=True)
        assert (errors[Place("t", 0)], errors[Place("t", 1)]) == (0, 0)
        missing = errors[Place("t", 7)]
        assert isinstance(missing, KafkaError)
        assert missing.code() == _UNKNOWN


def test_a_leader_that_falls_silent_is_asked_again() -> None:
    with FakeCluster(2) as kafka:
        kafka.create_topic("t", partitions=2)
        for node in (1, 2):
            kafka.move_leader("t", node - 1, node)
        admin = LinkAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers))
        wanted = {Place("t", 0): LATEST, Place("t", 1): LATEST}
        kafka.lose_request("ListOffsets")
        assert admin.list_offsets(wanted, committed=True, request_timeout=LIMIT_SECONDS) == dict.fromkeys(wanted, 0)
        assert len(kafka.asked("ListOffsets")) == 3


def test_no_thread_waits_for_another() -> None:
    """One that asks a silent broker keeps nobody from asking about something else."""
    with FakeCluster() as kafka, ThreadPoolExecutor(1) as pool:
        admin = LinkAdmin(ClusterSettings.plaintext("a", kafka.bootstrap_servers))
        with kafka.silence("ListGroups"):
            waiting = pool.submit(lambda: admin.list_consumer_groups(request_timeout=30).result())
            while not kafka.asked("ListGroups"):
                assert admin.list_topics(timeout=30).brokers
            assert not waiting.done()
        assert not waiting.result().errors
