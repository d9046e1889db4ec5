"""LocalKafka with Kafka's own tiered storage."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.tiered_storage import TIERED_TOPIC, wait_until_remote

pytestmark = pytest.mark.kafka


def test_closed_segments_go_to_the_remote_store_and_are_read_from_there(broker_jvm: BrokerJvm) -> None:
    with LocalKafka(name="tiered", tiered=True, jvm=broker_jvm) as kafka:
        kafka.create_topic("t", config=TIERED_TOPIC)
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "batch.size": 16384}
        )
        for number in range(3000):
            producer.produce("t", value=b"%d " % number + os.urandom(1000), partition=0)
            producer.poll(0)
        assert producer.flush(120) == 0
        assert wait_until_remote(kafka, "t", 1000) >= 1000

        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        values = [message.value() or b"" for message in consumer.consume(3000, 120)]
        consumer.close()
        assert [int(value.split(b" ", 1)[0]) for value in values] == list(range(3000))
