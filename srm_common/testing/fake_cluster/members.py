"""Members of a classic group: joining, the leader's assignment, heartbeats (KIP-62), and members that a test adds.

Rules: Kafka's ``ClassicGroup``.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from srm_common.testing.fake_cluster.messages import Refused

UNKNOWN_MEMBER = 25
EMPTY, JOINING, SYNCING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


@dataclass
class Member:
    """``placed`` by a test: it neither sends nor expects anything."""

    member_id: str
    client_id: str
    instance_id: str | None = None
    protocols: list[tuple[str, bytes]] = field(default_factory=list)
    metadata: bytes = b""
    assignment: bytes = b""
    topics: tuple[str, ...] = ()
    placed: bool = False
    session_seconds: float = 10.0
    rebalance_seconds: float = 60.0
    heard_at: float = field(default_factory=time.monotonic)
    joined: bool = False


class Membership:
    """The members of one group. ``generation`` grows with each assignment."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.state = EMPTY
        self.generation = 0
        self.protocol = ""
        self.leader = ""
        self._began = 0.0

    @property
    def topics(self) -> set[str]:
        """What the members are subscribed to."""
        return {topic for member in self.members.values() for topic in member.topics}

    def place(self, member: Member) -> None:
        """A member that a test puts there, without a rebalance."""
        self.members[member.member_id] = member
        self.generation += 1
        self.protocol = self.protocol or "range"
        self.state = STABLE

    def leave(self, member_id: str) -> None:
        """Raises Refused for a member that is not there."""
        member = self.members.pop(member_id, None)
        if member is None:
            raise Refused(UNKNOWN_MEMBER)
        if not self.members:
            self.state, self.protocol, self.leader = EMPTY, "", ""
            self.generation += 1
        elif not member.placed:
            self.rebalance()

    def rebalance(self) -> None:
        """All members have to join again."""
        if self.state != JOINING:
            self.state, self._began = JOINING, time.monotonic()
            for member in self.members.values():
                member.joined = member.placed

    def heard(self, member_id: str) -> None:
        self.members[member_id].heard_at = time.monotonic()

    def expire(self) -> bool:
        """Removes members that no longer send heartbeats or did not join in time. Returns whether there were some."""
        now = time.monotonic()
        late = self.state == JOINING and now - self._began > max(
            (member.rebalance_seconds for member in self.members.values()), default=0.0
        )
        gone = [
            member.member_id
            for member in self.members.values()
            if not member.placed
            and (now - member.heard_at > member.session_seconds or (late and not member.joined))
            # Whoever has joined is waiting for its answer.
            and not (member.joined and self.state == JOINING)
        ]
        for member_id in gone:
            self.leave(member_id)
        if gone:
            self.complete()
        return bool(gone)

    def complete(self) -> None:
        """Assign, once all have joined."""
        members = list(self.members.values())
        if self.state != JOINING or not members or not all(member.joined for member in members):
            return
        live = [member for member in members if not member.placed]
        self.generation += 1
        common = [name for name, _ in live[0].protocols if all(name in dict(member.protocols) for member in live)]
        self.protocol = common[0] if common else ""
        self.leader = self.leader if self.leader in self.members else live[0].member_id
        for member in live:
            member.metadata = dict(member.protocols).get(self.protocol, b"")
            member.assignment = b""
            member.topics = tuple(subscribed(member.metadata))
            member.heard_at = time.monotonic()
        self.state = SYNCING


def subscribed(metadata: bytes) -> list[str]:
    """The topics in a consumer's subscription (Kafka's ``ConsumerProtocolSubscription``)."""
    if len(metadata) < 6:
        return []
    (count,) = struct.unpack_from(">i", metadata, 2)
    at, names = 6, []
    for _ in range(count):
        (size,) = struct.unpack_from(">h", metadata, at)
        names.append(metadata[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return names


def subscription(topics: Iterable[str]) -> bytes:
    """What a consumer sends that is subscribed to these topics."""
    names = [name.encode() for name in topics]
    parts = [struct.pack(">hi", 0, len(names)), *(struct.pack(">h", len(name)) + name for name in names)]
    return b"".join(parts) + struct.pack(">i", -1)


def assignment(partitions: dict[str, list[int]]) -> bytes:
    """What a consumer is assigned."""
    out = struct.pack(">hi", 0, len(partitions))
    for name, numbers in partitions.items():
        text = name.encode()
        out += struct.pack(">h", len(text)) + text + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out + struct.pack(">i", -1)


def placed_member(name: str, partitions: dict[str, list[int]]) -> Member:
    """A member that a test places in a group, with these partitions."""
    return Member(
        name,
        name,
        metadata=subscription(partitions),
        assignment=assignment(partitions),
        topics=tuple(partitions),
        placed=True,
    )
