"""Everything that is used of confluent-kafka, under our names: this module alone imports it.

What its type stubs lack is added here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    TopicDescription,
    TopicMetadata,
)

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.kafka.client.logins.security import librdkafka_settings
from srm_common.kafka.client.logins.token_function import function_tokens

__all__ = [
    "BROKER_LEFT",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "Consumer",
    "ConsumerGroupTopicPartitions",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "Producer",
    "ResourcePatternType",
    "ResourceType",
    "TopicCollection",
    "TopicDescription",
    "TopicMetadata",
    "TopicPartition",
]

#: ``_DESTROY_BROKER``, which the oldest version does not name: the broker left the cluster during the request.
BROKER_LEFT = -137

silent_logger = logging.getLogger("srm_common.kafka.librdkafka")
silent_logger.addHandler(logging.NullHandler())
silent_logger.propagate = False


def admin_client(cluster: ClusterSettings, error_cb: Callable[[KafkaError], None] = lambda error: None) -> AdminClient:
    """librdkafka's admin client, quiet; ``error_cb`` is called with errors of connections.

    KRaft brokers name any of themselves as the controller that requests go to. Where that one is gone, librdkafka waits
    for it until it hears of another; so it asks every second instead of every five minutes.
    """
    config: dict[str, Any] = {
        "topic.metadata.refresh.interval.ms": "1000",
        **librdkafka_settings(cluster, Client.ADMIN),
        "error_cb": error_cb,
        "log_level": 0,
    }
    tokens = function_tokens(cluster.of_client(Client.ADMIN))
    if tokens is not None:
        config["oauth_cb"] = tokens.for_librdkafka
    return AdminClient(config, logger=silent_logger)
