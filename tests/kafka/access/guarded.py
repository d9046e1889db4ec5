"""Brokers that check rights: logins to them, bindings on their topics, and what principals may do there."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from srm_common.domain.access.acl_bindings import AclBinding
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.settings.layers import Entry
from srm_common.kafka.admin.acl_admin import AclAdmin
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.testing import LocalKafka
from srm_common.testing.logins import client_properties
from tests.kafka.records import eventually
from tests.unit.domain.access.test_acl_bindings import binding

LOGINS = {name: f"{name}-pw" for name in ("srm", "limited", "bob", "eve", "app")}


def login(alias: str, kafka: LocalKafka, user: str) -> ClusterSettings:
    properties = {"bootstrap.servers": kafka.bootstrap_servers, **client_properties(user, LOGINS[user])}
    written = {key: Entry(key, value, "test", 1) for key, value in properties.items()}
    return cluster_settings(alias, written, lambda entry: entry.value)


@dataclass
class Sides:
    """Two brokers with an authorizer, and the bindings on topics of each, written as in ``ALLOW READ bob orders``."""

    source: LocalKafka
    target: LocalKafka

    def change(self, kafka: LocalKafka, change: str, *texts: str) -> None:
        admin = AclAdmin(ClusterSettings.plaintext(kafka.name, kafka.internal_servers))
        bindings = [binding(text) for text in texts]
        assert set((admin.create if change == "+" else admin.delete)(bindings)) <= {None}
        eventually(
            lambda: all((acl_binding in self.bindings(kafka)) == (change == "+") for acl_binding in bindings),
            120,
            "not seen by the broker",
        )

    def bindings(self, kafka: LocalKafka) -> frozenset[AclBinding]:
        bindings = AclAdmin(ClusterSettings.plaintext(kafka.name, kafka.internal_servers)).topic_bindings()
        assert bindings is not None
        return bindings

    def of_readers(self, *about: str) -> set[AclBinding]:
        """What the target says of other principals than the replicator about topics that begin with these."""
        return {
            acl_binding
            for acl_binding in self.bindings(self.target)
            if acl_binding.principal != "User:srm" and acl_binding.topics.name.startswith(about)
        }


def can_read(cluster: ClusterSettings, topic: str) -> bool:
    consumer = Consumer({**cluster.confluent, "group.id": "none", "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        fault = consumer.list_topics(topic, timeout=60).topics[topic].error
        if fault is not None:
            assert fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, fault
            return False
        while True:
            message = consumer.poll(60)
            assert message is not None
            error = message.error()
            # The client asks for its group's coordinator although nothing is committed.
            if error is None or error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                break
    finally:
        consumer.close()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return True
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
    return False


def can_write(cluster: ClusterSettings, topic: str) -> bool:
    faults: list[KafkaError | None] = []
    producer = Producer({**cluster.confluent, "message.timeout.ms": 60_000, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: faults.append(error))
    producer.flush(60)
    (fault,) = faults
    if fault is not None:
        assert fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, fault
    return fault is None
