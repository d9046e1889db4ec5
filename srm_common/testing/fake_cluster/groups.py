"""Consumer groups of a cluster: their names, committed offsets and coordinators.

Rules: Kafka's ``GroupMetadataManager`` and ``OffsetMetadataManager``, for classic groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from srm_common.testing.fake_cluster.members import Member, Membership
from srm_common.testing.fake_cluster.messages import Answer, Call, Refused
from srm_common.testing.fake_cluster.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topics

_METADATA_TOO_LARGE, _NOT_COORDINATOR, _INVALID_REQUEST = 12, 16, 42
_ILLEGAL_GENERATION, _UNKNOWN_MEMBER = 22, 25
_NON_EMPTY, _GROUP_NOT_FOUND, _SUBSCRIBED, _UNSTABLE = 68, 69, 86, 88
_LONGEST_METADATA = 4096
_OF_TRANSACTION = 1

Partition = tuple[str, int]


class Committed(NamedTuple):
    """What a group has committed for a partition; no leader epoch is -1."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass
class Group:
    """``protocol_type`` is empty where all commits came from outside the group."""

    name: str
    protocol_type: str = ""
    offsets: dict[Partition, Committed] = field(default_factory=dict)
    membership: Membership = field(default_factory=Membership)

    @property
    def state(self) -> str:
        return self.membership.state


class Groups:
    def __init__(self, topics: Topics, changed: Callable[[], None]) -> None:
        self.known: dict[str, Group] = {}
        self._topics, self._changed = topics, changed
        #: Partitions whose commits wait for the end of a transaction, by group.
        self.pending: Callable[[str], set[Partition]] = lambda group: set()
        topics.on_delete.append(self._forget_topic)

    def handlers(self) -> dict[str, Any]:
        return {
            "FindCoordinator": self._find_coordinator,
            "OffsetCommit": self._commit,
            "OffsetFetch": self._fetch,
            "OffsetDelete": self._delete_offsets,
            "ListGroups": self._list,
            "DescribeGroups": self._describe,
            "DeleteGroups": self._delete,
        }

    # ---- for the other rooms

    def group(self, name: str) -> Group:
        return self.known.setdefault(name, Group(name))

    def put(self, name: str, offsets: dict[Partition, Committed]) -> None:
        self.group(name).offsets.update(offsets)
        self._changed()

    def checked(self, call: Call, name: str) -> None:
        """Raises Refused where this node does not coordinate the group."""
        call.check(name)
        if self._topics.coordinator(name, OFFSETS_TOPIC) != call.node:
            raise Refused(_NOT_COORDINATOR)

    def expire(self) -> None:
        """Members whose session has timed out are removed."""
        for group in self.known.values():
            if group.membership.expire():
                self._changed()

    def store(self, call: Call, group: str, generation: int, member: str, put: Callable[[str, Any], None]) -> Answer:
        """Take the commits of a request one by one; ``put`` raises Refused."""
        code = 0
        try:
            self.checked(call, group)
            found = self.known.get(group)
            if found is None:
                if generation >= 0:
                    raise Refused(_ILLEGAL_GENERATION)
            else:
                self._check_member(found, generation, member)
        except Refused as refused:
            code = refused.code
        topics = []
        for topic in call.body.topics:
            parts = []
            for partition in topic.partitions:
                answer = code
                if not code:
                    try:
                        call.check(topic.name)
                        if len((partition.committed_metadata or "").encode()) > _LONGEST_METADATA:
                            raise Refused(_METADATA_TOO_LARGE)
                        put(topic.name, partition)
                    except Refused as refused:
                        answer = refused.code
                parts.append({"partition_index": partition.partition_index, "error_code": answer})
            topics.append({"name": topic.name, "partitions": parts})
        self._changed()
        return {"topics": topics}

    @staticmethod
    def _check_member(group: Group, generation: int, member: str) -> None:
        membership = group.membership
        if generation < 0 and not member:
            if membership.members:
                raise Refused(_UNKNOWN_MEMBER)
            return
        if member not in membership.members:
            raise Refused(_UNKNOWN_MEMBER)
        membership.heard(member)
        if generation != membership.generation:
            raise Refused(_ILLEGAL_GENERATION)

    def _forget_topic(self, topic: str) -> None:
        for group in self.known.values():
            group.offsets = {place: found for place, found in group.offsets.items() if place[0] != topic}

    # ---- requests

    def _find_coordinator(self, call: Call) -> Answer:
        body = call.body
        topic = TRANSACTIONS_TOPIC if body.key_type == _OF_TRANSACTION else OFFSETS_TOPIC
        if call.version < 4:
            return self._coordinator(call, body.key, topic)
        return {"coordinators": [{"key": key, **self._coordinator(call, key, topic)} for key in body.coordinator_keys]}

    def _coordinator(self, call: Call, key: str, topic: str) -> Answer:
        code = call.refused(key)
        node = self._topics.nodes.get(self._topics.coordinator(key, topic))
        if not code and node is None:
            code = 15  # COORDINATOR_NOT_AVAILABLE
        if code or node is None:
            return {"error_code": code, "error_message": None, "node_id": -1, "host": "", "port": -1}
        return {"error_code": 0, "error_message": None, "node_id": node.number, "host": node.host, "port": node.port}

    def _commit(self, call: Call) -> Answer:
        body = call.body

        def put(name: str, one: Any) -> None:
            self._topics.partition(name, one.partition_index)
            committed = Committed(one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "")
            self.group(body.group_id).offsets[name, one.partition_index] = committed

        return self.store(call, body.group_id, body.generation_id_or_member_epoch, body.member_id, put)

    def _fetch(self, call: Call) -> Answer:
        body = call.body
        if call.version >= 8:
            return {
                "groups": [
                    {"group_id": group.group_id, **self._fetched(call, group.group_id, group.topics)}
                    for group in body.groups
                ]
            }
        found = self._fetched(call, body.group_id, body.topics)
        if call.version < 2 and found["error_code"]:
            found["topics"] = []
        return found

    def _fetched(self, call: Call, name: str, topics: Any) -> Answer:
        try:
            self.checked(call, name)
        except Refused as refused:
            return {"error_code": refused.code, "topics": []}
        group = self.known.get(name) or Group(name)
        wanted: dict[str, list[int]] = {}
        if topics is None:
            for topic, number in sorted(group.offsets):
                wanted.setdefault(topic, []).append(number)
        else:
            wanted = {one.name: list(one.partition_indexes) for one in topics}
        pending = self.pending(name) if call.body.require_stable else set()
        out = []
        for topic, numbers in wanted.items():
            parts = []
            for number in numbers:
                one = group.offsets.get((topic, number))
                code = _UNSTABLE if (topic, number) in pending else 0
                if one is None or code:
                    one = Committed(-1)
                parts.append(
                    {
                        "partition_index": number,
                        "committed_offset": one.offset,
                        "committed_leader_epoch": one.leader_epoch,
                        "metadata": one.metadata,
                        "error_code": code,
                    }
                )
            out.append({"name": topic, "partitions": parts})
        return {"error_code": 0, "topics": out}

    def _delete_offsets(self, call: Call) -> Answer:
        body = call.body
        try:
            self.checked(call, body.group_id)
            group = self.known.get(body.group_id)
            if group is None:
                raise Refused(_GROUP_NOT_FOUND)
        except Refused as refused:
            return {"error_code": refused.code, "topics": []}
        topics = []
        for topic in body.topics:
            code = call.refused(topic.name) or (_SUBSCRIBED if topic.name in group.membership.topics else 0)
            for partition in topic.partitions:
                if not code:
                    group.offsets.pop((topic.name, partition.partition_index), None)
            parts = [
                {"partition_index": partition.partition_index, "error_code": code} for partition in topic.partitions
            ]
            topics.append({"name": topic.name, "partitions": parts})
        self._changed()
        return {"error_code": 0, "topics": topics}

    def _list(self, call: Call) -> Answer:
        body = call.body
        states = {one.lower() for one in body.states_filter or ()}
        types = {one.lower() for one in body.types_filter or ()}
        return {
            "error_code": call.refused(),
            "groups": [
                {
                    "group_id": group.name,
                    "protocol_type": group.protocol_type,
                    "group_state": group.state,
                    "group_type": "classic",
                }
                for group in sorted(self.known.values(), key=lambda one: one.name)
                if self._topics.coordinator(group.name, OFFSETS_TOPIC) == call.node
                and (not states or group.state.lower() in states)
                and (not types or "classic" in types)
            ],
        }

    def _describe(self, call: Call) -> Answer:
        return {"groups": [self._described(call, name) for name in call.body.groups]}

    def _described(self, call: Call, name: str) -> Answer:
        out: Answer = {"group_id": name, "group_state": "Dead", "protocol_type": "", "protocol_data": "", "members": []}
        try:
            self.checked(call, name)
        except Refused as refused:
            return out | {"error_code": refused.code, "group_state": ""}
        group = self.known.get(name)
        if group is None:
            if call.version < 6:
                return out | {"error_code": 0}
            return out | {"error_code": _GROUP_NOT_FOUND, "error_message": f"Group {name} not found."}
        return out | {
            "error_code": 0,
            "group_state": group.state,
            "protocol_type": group.protocol_type,
            "protocol_data": group.membership.protocol,
            "members": [_member(member) for member in group.membership.members.values()],
        }

    def _delete(self, call: Call) -> Answer:
        results = []
        for name in call.body.groups_names:
            code = 0
            try:
                self.checked(call, name)
                group = self.known.get(name)
                if group is None:
                    raise Refused(_GROUP_NOT_FOUND)
                if group.membership.members:
                    raise Refused(_NON_EMPTY)
                del self.known[name]
            except Refused as refused:
                code = refused.code
            results.append({"group_id": name, "error_code": code})
        self._changed()
        return {"results": results}


def _member(one: Member) -> Answer:
    return {
        "member_id": one.member_id,
        "group_instance_id": one.instance_id,
        "client_id": one.client_id,
        "client_host": "/127.0.0.1",
        "member_metadata": one.metadata,
        "member_assignment": one.assignment,
    }
