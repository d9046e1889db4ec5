"""Replication policies: the name of a topic's copy, and what a name reveals about its origin.

The rules are those of ``org.apache.kafka.connect.mirror.DefaultReplicationPolicy`` and ``IdentityReplicationPolicy``,
down to how Java splits strings. Custom policies have the methods of :class:`ReplicationPolicy`; docs/policies.md
describes how to write one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

HEARTBEATS = "heartbeats"


@runtime_checkable
class ReplicationPolicy(Protocol):
    """The methods of a policy; all of them work on strings."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Name on the target of ``topic`` of cluster ``source_alias``."""
        ...

    def topic_source(self, topic: str) -> str | None:
        """Alias of the cluster ``topic`` was copied from, None for a topic that is not a copy."""
        ...

    def upstream_topic(self, topic: str) -> str | None:
        """Name of ``topic`` on the cluster it was copied from, None for a topic that is not a copy."""
        ...

    def original_topic(self, topic: str) -> str:
        """Name of ``topic`` where it was first written."""
        ...

    def is_heartbeats_topic(self, topic: str) -> bool: ...

    def is_checkpoints_topic(self, topic: str) -> bool: ...

    def is_internal_topic(self, topic: str) -> bool:
        """True for topics that are never copied, whatever the filters say."""
        ...

    def heartbeats_topic(self) -> str: ...

    def checkpoints_topic(self, alias: str) -> str: ...

    def offset_syncs_topic(self, alias: str) -> str: ...


@dataclass(frozen=True)
class DefaultReplicationPolicy:
    """A remote topic is alias + separator + topic.

    ``separator_in_internal_names`` is ``replication.policy.internal.topic.separator.enabled``: whether the
    separator also forms the names of the checkpoints and offset-syncs topics.
    """

    separator: str = "."
    separator_in_internal_names: bool = True

    @property
    def internal_separator(self) -> str:
        return self.separator if self.separator_in_internal_names else "."

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        # String.split drops trailing empty pieces but keeps a leading one: "A." has no source, ".foo" has "".
        pieces = topic.split(self.separator)
        while pieces and not pieces[-1]:
            pieces.pop()
        return pieces[0] if len(pieces) >= 2 else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        while True:
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return topic
            topic = upstream

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(f"{self.internal_separator}checkpoints{self.internal_separator}internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return topic.endswith(f"{self.internal_separator}internal")

    def is_internal_topic(self, topic: str) -> bool:
        return (
            self.is_mm2_internal_topic(topic)
            or topic.startswith(("__", "."))
            or topic.endswith(("-internal", ".internal"))
        )

    def heartbeats_topic(self) -> str:
        return HEARTBEATS

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self.internal_separator}{alias}{self.internal_separator}internal"


@dataclass(frozen=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Topics keep their names, except those that end in ``heartbeats``: these follow the default policy.

    ``source_alias`` is what ``topic_source`` answers for every topic, as the name itself does not tell. Cycles
    cannot be found by names under this policy.
    """

    source_alias: str | None = None

    @staticmethod
    def _looks_like_heartbeat(topic: str) -> bool:
        return topic.endswith(HEARTBEATS)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return super().format_remote_topic(source_alias, topic) if self._looks_like_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._looks_like_heartbeat(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if self._looks_like_heartbeat(topic) else topic

    def original_topic(self, topic: str) -> str:
        return super().original_topic(topic) if self._looks_like_heartbeat(topic) else topic


@dataclass(frozen=True)
class MigratingReplicationPolicy(DefaultReplicationPolicy):
    """Topics keep their names; heartbeats and internal topics are named as by the default policy.

    For moving to another cluster: unlike under the identity policy, ``my-heartbeats`` is a topic like any other.
    ``source_alias`` as there.
    """

    source_alias: str | None = None

    def _by_default(self, topic: str) -> DefaultReplicationPolicy | None:
        """The default policy, for a topic that is named by it."""
        default = DefaultReplicationPolicy(self.separator, self.separator_in_internal_names)
        return default if default.is_heartbeats_topic(topic) or default.is_internal_topic(topic) else None

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        default = self._by_default(topic)
        return topic if default is None else default.format_remote_topic(source_alias, topic)

    def topic_source(self, topic: str) -> str | None:
        default = self._by_default(topic)
        return self.source_alias if default is None else default.topic_source(topic)

    def upstream_topic(self, topic: str) -> str | None:
        default = self._by_default(topic)
        return topic if default is None else default.upstream_topic(topic)

    def original_topic(self, topic: str) -> str:
        default = self._by_default(topic)
        return topic if default is None else default.original_topic(topic)


#: The policies that come with the product, by the name that ``replication.policy.class`` has for them.
SHIPPED_POLICIES: dict[str, type[DefaultReplicationPolicy]] = {
    kind.__name__: kind for kind in (DefaultReplicationPolicy, IdentityReplicationPolicy, MigratingReplicationPolicy)
}

#: What a user's class must have.
POLICY_METHODS: tuple[str, ...] = tuple(
    name for name, member in vars(ReplicationPolicy).items() if callable(member) and not name.startswith("_")
)


def is_shipped(policy: ReplicationPolicy) -> bool:
    """Whether the policy comes with the product, so that its answers are known to fit each other."""
    return type(policy) is SHIPPED_POLICIES.get(type(policy).__name__)


def policy_name(policy: ReplicationPolicy) -> str:
    """What a policy is called in records and messages: its class, and the separator where that is not a dot."""
    kind = type(policy)
    if is_shipped(policy):
        separator = getattr(policy, "separator", ".")
        return kind.__name__ if separator == "." else f"{kind.__name__} with the separator '{separator}'"
    return f"{kind.__module__}.{kind.__qualname__}"


def is_cycle(policy: ReplicationPolicy, target_alias: str, topic: str) -> bool:
    """True when ``topic`` was on the target before: its whole ancestry is searched (MirrorSourceConnector.isCycle).

    It ends where a name comes again, for policies that translate two names into each other.
    """
    names: set[str] = set()
    while topic not in names:
        names.add(topic)
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None:
            return False
        topic = upstream
    return False
