"""Commits offsets for groups that nobody reads with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from srm_common.domain.checkpoints import Checkpoint
from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.compacted import silent_logger
from srm_common.kafka.faults import cluster_error, kafka_error
from srm_common.kafka.group_offsets import GroupFault

_REQUEST_SECONDS = 30.0
#: What a broker answers when the group got a member since it was looked at.
_IN_USE = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.NON_EMPTY_GROUP}


class GroupCommitter:
    """Writes to one cluster's groups, one request a group: the brokers take all of its partitions or tell why not."""

    def __init__(self, cluster: ClusterSettings, *, timeout_seconds: float = _REQUEST_SECONDS) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        settings: dict[str, Any] = {**cluster.confluent, "log_level": 0}
        self._admin = AdminClient(settings, logger=silent_logger)

    def commit(self, group: str, checkpoints: Sequence[Checkpoint]) -> tuple[int, str | None, list[GroupFault]]:
        """Commit the downstream offsets: (positions written, the state that forbade it, faults)."""
        places = [TopicPartition(one.topic, one.partition, one.downstream, one.metadata) for one in checkpoints]
        request = [ConsumerGroupTopicPartitions(group, places)]
        try:
            answer = self._admin.alter_consumer_group_offsets(request, request_timeout=self._timeout)[group].result()
        except KafkaException as error:
            found = kafka_error(error)
            if found is not None and found.code() in _IN_USE:
                return 0, "in use", []
            return 0, None, [self._fault(group, error)]
        refused = [place.error for place in answer.topic_partitions or () if place.error is not None]
        if any(error.code() in _IN_USE for error in refused):
            return 0, "in use", []
        return len(places) - len(refused), None, [self._fault(group, error) for error in refused[:1]]

    def _fault(self, group: str, error: KafkaException | KafkaError) -> GroupFault:
        return GroupFault(group, str(cluster_error(self._cluster, f"commit offsets of group {group}", error)))
