"""Requests about topics: Metadata, creation, growth and deletion, and the cluster itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from srm_common.testing.fake_cluster.configs import POLICY_VIOLATION
from srm_common.testing.fake_cluster.messages import Answer, Call, Refused
from srm_common.testing.fake_cluster.topics import (
    INTERNAL,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    UNKNOWN_TOPIC,
    UNKNOWN_TOPIC_ID,
    PartitionState,
    Topics,
)

_LEADER_NOT_AVAILABLE = 5
#: Of a whole answer.
_REBOOTSTRAP_REQUIRED = 129
_NO_ID = uuid.UUID(int=0)
_METADATA_TOPIC = "__cluster_metadata"
#: In the controller's log, by one request.
_MOST_RECORDS = 10_000


class TopicRequests:
    def __init__(self, topics: Topics, now_ms: Callable[[], int]) -> None:
        self._topics, self._now_ms = topics, now_ms

    def handlers(self) -> dict[str, Any]:
        return {
            "Metadata": self._metadata,
            "DescribeCluster": self._describe_cluster,
            "DescribeQuorum": self._describe_quorum,
            "DescribeTopicPartitions": self._describe_partitions,
            "CreateTopics": self._create_topics,
            "DeleteTopics": self._delete_topics,
            "CreatePartitions": self._create_partitions,
        }

    def _metadata(self, call: Call) -> Answer:
        if call.refused() == _REBOOTSTRAP_REQUIRED:
            return {"error_code": _REBOOTSTRAP_REQUIRED, "brokers": [], "topics": []}
        body = call.body
        wanted: list[tuple[str | None, uuid.UUID]] = []
        if body.topics is None or (call.version == 0 and not body.topics):
            wanted = [(name, _NO_ID) for name in self._topics.topics]
        else:
            wanted = [(topic.name, topic.topic_id or _NO_ID) for topic in body.topics]
        allowed = call.version < 4 or body.allow_auto_topic_creation
        found = [
            self._metadata_of(call, name, topic_id, create=allowed and body.topics is not None)
            for name, topic_id in wanted
        ]
        return {
            "brokers": self._brokers("node_id"),
            "cluster_id": self._topics.cluster_id,
            "controller_id": next(iter(self._topics.alive), -1),
            "topics": [one for one in found if one is not None],
        }

    def _metadata_of(self, call: Call, name: str | None, topic_id: uuid.UUID, *, create: bool) -> Answer | None:
        if name is None:
            name = self._topics.name_of(topic_id)
            if name is None:
                return {"error_code": UNKNOWN_TOPIC_ID, "name": None, "topic_id": topic_id, "partitions": []}
        code = call.refused(name)
        if code:
            # A listing of all topics leaves out those that may not be seen.
            return None if call.body.topics is None else {"error_code": code, "name": name, "partitions": []}
        topic = self._topics.topics.get(name)
        if topic is None:
            return {"error_code": self._missing(name, create=create), "name": name, "partitions": []}
        return {
            "error_code": 0,
            "name": name,
            "topic_id": topic.topic_id,
            "is_internal": topic.internal,
            "partitions": [self._described(number, one) for number, one in enumerate(topic.partitions)],
        }

    def _missing(self, name: str, *, create: bool) -> int:
        if not create or self._topics.configs.broker("auto.create.topics.enable") != "true":
            return UNKNOWN_TOPIC
        try:
            self._topics.create(name, -1, -1, {})
        except Refused as refused:
            return refused.code
        self._topics.made_on_demand.add(name)
        return UNKNOWN_TOPIC if name in INTERNAL else _LEADER_NOT_AVAILABLE

    def _described(self, number: int, one: PartitionState) -> Answer:
        alive = self._topics.alive
        return {
            "error_code": 0 if one.leader >= 0 else _LEADER_NOT_AVAILABLE,
            "partition_index": number,
            "leader_id": one.leader,
            "leader_epoch": one.log.epoch,
            "replica_nodes": one.replicas,
            "isr_nodes": [node for node in one.replicas if node in alive],
            "offline_replicas": [node for node in one.replicas if node not in alive],
        }

    def _brokers(self, key: str) -> list[Answer]:
        nodes = ((number, self._topics.nodes[number]) for number in self._topics.alive)
        return [{key: number, "host": node.host, "port": node.port, "rack": node.rack} for number, node in nodes]

    def _describe_cluster(self, call: Call) -> Answer:
        code = call.refused()
        return {
            "error_code": code,
            "cluster_id": self._topics.cluster_id,
            "controller_id": next(iter(self._topics.alive), -1),
            "brokers": [] if code else self._brokers("broker_id"),
        }

    def _describe_quorum(self, call: Call) -> Answer:
        now = self._now_ms()
        voters = [
            {"replica_id": node, "log_end_offset": 1, "last_fetch_timestamp": now, "last_caught_up_timestamp": now}
            for node in self._topics.nodes
        ]
        partition = {
            "partition_index": 0,
            "error_code": 0,
            "leader_id": next(iter(self._topics.nodes)),
            "leader_epoch": 1,
            "high_watermark": 1,
            "current_voters": voters,
            "observers": [],
        }
        code = call.refused()
        return {
            "error_code": code,
            "error_message": None,
            "topics": [] if code else [{"topic_name": _METADATA_TOPIC, "partitions": [partition]}],
            "nodes": [],
        }

    def _describe_partitions(self, call: Call) -> Answer:
        topics = []
        for name in sorted(one.name for one in call.body.topics) or sorted(self._topics.topics):
            topic = self._topics.topics.get(name)
            code = call.refused(name) or (UNKNOWN_TOPIC if topic is None else 0)
            if code or topic is None:
                topics.append({"error_code": code, "name": name, "topic_id": _NO_ID, "partitions": []})
                continue
            partitions = [self._described(number, one) for number, one in enumerate(topic.partitions)]
            topics.append(
                {
                    "error_code": 0,
                    "name": name,
                    "topic_id": topic.topic_id,
                    "is_internal": topic.internal,
                    "partitions": partitions,
                }
            )
        return {"topics": topics, "next_cursor": None}

    def _create_topics(self, call: Call) -> Answer:
        names = [topic.name for topic in call.body.topics]
        if sum(1 + max(topic.num_partitions, 0) + len(topic.configs) for topic in call.body.topics) > _MOST_RECORDS:
            why = "Excessively large number of partitions per request."
            refused = {"error_code": POLICY_VIOLATION, "error_message": why, "configs": None}
            return {"topics": [{"name": name, **refused} for name in names]}
        return {
            "topics": [self._create_one(call, topic, twice=names.count(topic.name) > 1) for topic in call.body.topics]
        }

    def _create_one(self, call: Call, wanted: Any, *, twice: bool) -> Answer:
        try:
            call.check(wanted.name)
            if twice:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            assigned = {assignment.partition_index: list(assignment.broker_ids) for assignment in wanted.assignments}
            if assigned and sorted(assigned) != list(range(len(assigned))):
                raise Refused(INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
            topic = self._topics.create(
                wanted.name,
                wanted.num_partitions,
                wanted.replication_factor,
                {config.name: config.value for config in wanted.configs},
                [assigned[number] for number in sorted(assigned)] if assigned else None,
                validate_only=call.body.validate_only,
            )
        except Refused as refused:
            return {"name": wanted.name, "error_code": refused.code, "error_message": refused.message, "configs": None}
        return {
            "name": wanted.name,
            "topic_id": topic.topic_id,
            "error_code": 0,
            "error_message": None,
            "num_partitions": len(topic.partitions),
            "replication_factor": len(topic.partitions[0].replicas),
            "configs": [
                {"name": key, "value": one.value, "config_source": one.source}
                for key, one in self._topics.configs.described(topic.settings).items()
            ],
        }

    def _delete_topics(self, call: Call) -> Answer:
        wanted = call.body.topics if call.version >= 6 else None
        responses = []
        for name, topic_id in (
            [(one.name, one.topic_id or _NO_ID) for one in wanted]
            if wanted is not None
            else [(topic_name, _NO_ID) for topic_name in call.body.topic_names]
        ):
            if name is None:
                name = self._topics.name_of(topic_id)
            missing = UNKNOWN_TOPIC_ID if name is None else UNKNOWN_TOPIC if name not in self._topics.topics else 0
            code = missing or call.refused(name or "")
            if not code and name is not None:
                self._topics.delete(name)
            responses.append({"name": name, "topic_id": topic_id, "error_code": code})
        return {"responses": responses}

    def _create_partitions(self, call: Call) -> Answer:
        results = []
        for topic in call.body.topics:
            code, message = 0, None
            try:
                call.check(topic.name)
                self._topics.grow(topic.name, topic.count, validate_only=call.body.validate_only)
            except Refused as refused:
                code, message = refused.code, refused.message
            results.append({"name": topic.name, "error_code": code, "error_message": message})
        return {"results": results}
