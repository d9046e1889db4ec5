"""Access control bindings on topics as values, with the semantics of Kafka's authorizer for patterns, hosts and
principals.

Terms are Kafka's (``org.apache.kafka.common.acl``, ``org.apache.kafka.common.resource``); bindings match as in
``org.apache.kafka.metadata.authorizer.StandardAuthorizer``: a DENY wins over every ALLOW, and what nothing allows is
refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

EVERYONE = "User:*"
ANY_HOST = "*"
EVERY_TOPIC = "*"


class Pattern(StrEnum):
    """How the name of a resource is read."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class Permission(StrEnum):
    ALLOW = "ALLOW"
    DENY = "DENY"


class Operation(StrEnum):
    """What a binding on a topic may be about; ``UNKNOWN`` is what this version does not know."""

    ALL = "ALL"
    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    UNKNOWN = "UNKNOWN"


#: What an ALLOW brings besides itself (``AclEntry``); a DENY brings nothing.
IMPLIED: dict[Operation, frozenset[Operation]] = {
    Operation.READ: frozenset({Operation.DESCRIBE}),
    Operation.WRITE: frozenset({Operation.DESCRIBE}),
    Operation.DELETE: frozenset({Operation.DESCRIBE}),
    Operation.ALTER: frozenset({Operation.DESCRIBE}),
    Operation.ALTER_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS}),
}


@dataclass(frozen=True, slots=True, order=True)
class TopicPattern:
    """The topics a binding is about: one, all whose names begin alike, or (a literal ``*``) every one."""

    pattern: Pattern
    name: str

    @property
    def prefix(self) -> str | None:
        """What the names have in common that it covers, None when it covers one name only."""
        if self.pattern is Pattern.PREFIXED:
            return self.name
        return "" if self.name == EVERY_TOPIC else None

    def covers(self, topic: str) -> bool:
        prefix = self.prefix
        return topic == self.name if prefix is None else topic.startswith(prefix)

    def among(self, names: Sequence[str]) -> Sequence[str]:
        """Those of the sorted ``names`` that it covers."""
        prefix = self.prefix
        if prefix is not None:
            return beginning(names, prefix)
        place = bisect_left(names, self.name)
        return names[place : place + 1] if names[place : place + 1] == [self.name] else []

    def overlaps(self, other: TopicPattern) -> bool:
        """Whether some name is covered by both."""
        mine, theirs = self.prefix, other.prefix
        if mine is None:
            return other.covers(self.name)
        if theirs is None:
            return self.covers(other.name)
        return mine.startswith(theirs) or theirs.startswith(mine)

    def __str__(self) -> str:
        return f"{self.name} (prefixed)" if self.pattern is Pattern.PREFIXED else self.name


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One binding on a topic resource. ``principal`` is ``<type>:<name>``, ``host`` an address or ``*``."""

    topics: TopicPattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def right(self) -> str:
        """``User:bob READ``, and the host where not every one is meant."""
        return f"{self.principal} {self.operation}" + ("" if self.host == ANY_HOST else f" from {self.host}")

    def __str__(self) -> str:
        return f"{self.permission} {self.right} on {self.topics}"

    def limits(self, allow: AclBinding) -> bool:
        """Whether this DENY limits anything that ``allow`` permits."""
        return (
            (EVERYONE in (self.principal, allow.principal) or self.principal == allow.principal)
            and self.topics.overlaps(allow.topics)
            and (ANY_HOST in (self.host, allow.host) or self.host == allow.host)
            and (
                Operation.ALL in (self.operation, allow.operation)
                or self.operation is allow.operation
                or self.operation in IMPLIED.get(allow.operation, ())
            )
        )

    def to_json(self) -> list[str]:
        """The six parts; the inverse of :meth:`from_json`."""
        return [self.topics.pattern, self.topics.name, self.principal, self.host, self.operation, self.permission]

    @classmethod
    def from_json(cls, parts: Sequence[str]) -> AclBinding:
        """Raises ValueError if it is not a binding."""
        pattern, name, principal, host, operation, permission = parts
        return cls(TopicPattern(Pattern(pattern), name), principal, host, Operation(operation), Permission(permission))


def literal(topic: str) -> TopicPattern:
    return TopicPattern(Pattern.LITERAL, topic)


def prefixed(prefix: str) -> TopicPattern:
    return TopicPattern(Pattern.PREFIXED, prefix)


def beginning(names: Sequence[str], prefix: str) -> Sequence[str]:
    """Those of the sorted ``names`` that begin with ``prefix``."""
    start = bisect_left(names, prefix)
    return names[start : bisect_left(names, True, lo=start, key=lambda name: not name.startswith(prefix))]
