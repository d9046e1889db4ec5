"""The requests of a group's members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from srm_common.testing.fake_cluster.groups import Groups
from srm_common.testing.fake_cluster.members import JOINING, STABLE, SYNCING, UNKNOWN_MEMBER, Member, Membership
from srm_common.testing.fake_cluster.messages import Answer, Call, Refused
from srm_common.testing.fake_cluster.service import Waiting

_ILLEGAL_GENERATION, _INCONSISTENT_PROTOCOL = 22, 23
_REBALANCE_IN_PROGRESS, _MEMBER_ID_REQUIRED, _INVALID_GROUP = 27, 79, 24


class MemberRequests:
    """The requests of members."""

    def __init__(self, groups: Groups, changed: Callable[[], None]) -> None:
        self._groups, self._changed = groups, changed

    def handlers(self) -> dict[str, Any]:
        return {
            "JoinGroup": self._join,
            "SyncGroup": self._sync,
            "Heartbeat": self._heartbeat,
            "LeaveGroup": self._leave,
        }

    def _join(self, call: Call) -> Answer | Waiting:
        body = call.body
        try:
            if not body.group_id:
                # Any node says so, whichever coordinates.
                call.check(body.group_id)
                raise Refused(_INVALID_GROUP)
            self._groups.checked(call, body.group_id)
            group = self._groups.group(body.group_id)
            membership = group.membership
            if (
                body.member_id
                and body.member_id not in membership.members
                and not body.member_id.startswith(call.client_id)
            ):
                raise Refused(UNKNOWN_MEMBER)
        except Refused as refused:
            return self._not_joined(refused.code, body.member_id)
        if not body.member_id and call.version >= 4 and body.group_instance_id is None:
            return self._not_joined(_MEMBER_ID_REQUIRED, f"{call.client_id}-{uuid.uuid4()}")
        static = next(
            (
                one
                for one in membership.members.values()
                if body.group_instance_id and one.instance_id == body.group_instance_id
            ),
            None,
        )
        name = body.member_id or (static.member_id if static else f"{call.client_id}-{uuid.uuid4()}")
        member = membership.members.setdefault(name, Member(name, call.client_id, body.group_instance_id))
        member.protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in body.protocols]
        member.session_seconds = body.session_timeout_ms / 1000
        member.rebalance_seconds = max(body.rebalance_timeout_ms, body.session_timeout_ms) / 1000
        member.heard_at = time.monotonic()
        group.protocol_type = body.protocol_type
        membership.rebalance()
        member.joined = True
        membership.complete()
        self._changed()

        def attempt(final: bool) -> Answer | None:
            if name not in membership.members:
                return self._not_joined(UNKNOWN_MEMBER, name)
            if membership.state == JOINING:
                membership.expire()
                return self._not_joined(_REBALANCE_IN_PROGRESS, name) if final else None
            if not membership.protocol:
                return self._not_joined(_INCONSISTENT_PROTOCOL, name)
            lead = membership.leader == name
            return {
                "error_code": 0,
                "generation_id": membership.generation,
                "protocol_type": group.protocol_type,
                "protocol_name": membership.protocol,
                "leader": membership.leader,
                "member_id": name,
                "members": [
                    {"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": one.metadata}
                    for one in membership.members.values()
                    if lead and not one.placed
                ],
            }

        return Waiting(member.rebalance_seconds, attempt)

    @staticmethod
    def _not_joined(code: int, member_id: str) -> Answer:
        return {
            "error_code": code,
            "generation_id": -1,
            "protocol_name": "",
            "leader": "",
            "member_id": member_id,
            "members": [],
        }

    def _member(self, call: Call, member_id: str, generation: int) -> Membership:
        self._groups.checked(call, call.body.group_id)
        group = self._groups.known.get(call.body.group_id)
        if group is None or member_id not in group.membership.members:
            raise Refused(UNKNOWN_MEMBER)
        if generation != group.membership.generation:
            raise Refused(_ILLEGAL_GENERATION)
        group.membership.heard(member_id)
        return group.membership

    def _sync(self, call: Call) -> Answer | Waiting:
        body = call.body
        try:
            membership = self._member(call, body.member_id, body.generation_id)
            if membership.state == JOINING:
                raise Refused(_REBALANCE_IN_PROGRESS)
        except Refused as refused:
            return {"error_code": refused.code, "assignment": b""}
        if membership.state == SYNCING and membership.leader == body.member_id:
            for assignment in body.assignments:
                membership.members[assignment.member_id].assignment = bytes(assignment.assignment)
            membership.state = STABLE
            self._changed()
        generation = membership.generation

        def attempt(final: bool) -> Answer | None:
            member = membership.members.get(body.member_id)
            if member is None or final or membership.generation != generation or membership.state == JOINING:
                return {"error_code": _REBALANCE_IN_PROGRESS if member else UNKNOWN_MEMBER, "assignment": b""}
            if membership.state != STABLE:
                return None
            return {
                "error_code": 0,
                "protocol_type": "consumer",
                "protocol_name": membership.protocol,
                "assignment": member.assignment,
            }

        return Waiting(membership.members[body.member_id].rebalance_seconds, attempt)

    def _heartbeat(self, call: Call) -> Answer:
        try:
            membership = self._member(call, call.body.member_id, call.body.generation_id)
            if membership.state == JOINING:
                raise Refused(_REBALANCE_IN_PROGRESS)
        except Refused as refused:
            return {"error_code": refused.code}
        return {"error_code": 0}

    def _leave(self, call: Call) -> Answer:
        body = call.body
        names = [member.member_id for member in body.members] if call.version >= 3 else [body.member_id]
        code, members = 0, []
        try:
            self._groups.checked(call, body.group_id)
            membership = self._groups.group(body.group_id).membership
            for name in names:
                one = 0
                try:
                    membership.leave(name)
                except Refused as refused:
                    one = refused.code
                members.append({"member_id": name, "group_instance_id": None, "error_code": one})
            membership.complete()
        except Refused as refused:
            code = refused.code
        self._changed()
        if call.version < 3:
            return {"error_code": code or members[0]["error_code"]}
        return {"error_code": code, "members": members}
