"""The actions of a plan: small frozen values, each of which changes one thing on one cluster and has a reason.

A new kind of action is a class here (or next to the rules that create it) with the fields of :class:`Action`, and a
handler in :mod:`srm_common.usecases.topics.apply`. Printing, comparing and storing plans need no change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from srm_common.domain.amount import counted


class Job(StrEnum):
    """A part of a refresh that has its own switch and interval."""

    TOPICS = "topics"
    CONFIGS = "configs"
    ACLS = "acls"
    SCHEMAS = "schemas"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value before and after an action; None where there is none. ``reason`` where it differs from the action's."""

    what: str
    before: str | int | None
    after: str | int | None
    reason: str = ""


class Action(Hashable, Protocol):
    """One change. ``kind`` is for machines (``create_topic``), ``word`` for the first column of a table.

    ``str`` is one line for a person, without what became of it.
    """

    kind: ClassVar[str]
    word: ClassVar[str]

    @property
    def job(self) -> Job:
        """The part of a refresh that does it, and does it again when it has failed."""
        ...

    @property
    def cluster(self) -> str:
        """Alias of the cluster that is changed."""
        ...

    @property
    def topic(self) -> str:
        """What is changed there: a topic, or what else the kind is about."""
        ...

    @property
    def reason(self) -> str: ...

    def differences(self) -> tuple[Difference, ...]:
        """Values before and after, for people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain values: action, cluster, topic, before, after, reason. Two actions are the same when these are."""
        ...


def action_json(action: Action, before: Any, after: Any) -> dict[str, Any]:
    """The common form of :meth:`Action.to_json`."""
    return {
        "action": action.kind,
        "cluster": action.cluster,
        "topic": action.topic,
        "before": before,
        "after": after,
        "reason": action.reason,
    }


@dataclass(frozen=True)
class CreateTopic:
    """Create ``topic`` on the cluster ``cluster``. A ``replication_factor`` of -1 is the broker's default.

    The topic can do without the settings that are ``optional``. ``attempts`` are the replication factors to ask for,
    each where the one before is refused, where the cluster may have brokers for more after all
    (:class:`.replication.Brokers`).
    """

    kind: ClassVar[str] = "create_topic"
    word: ClassVar[str] = "create"
    job: ClassVar[Job] = Job.TOPICS

    cluster: str
    topic: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]
    reason: str
    attempts: tuple[int, ...] = ()
    optional: frozenset[str] = frozenset()

    def __str__(self) -> str:
        replicas = (
            "replicas by the broker's default"
            if self.replication_factor < 0
            else counted(self.replication_factor, "replica")
        )
        partitions = counted(self.partitions, "partition")
        return f"create topic {self.topic} on {self.cluster}: {partitions}, {replicas} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        replicas = "broker's default" if self.replication_factor < 0 else str(self.replication_factor)
        return (
            Difference("partitions", None, self.partitions),
            Difference("replicas", None, replicas),
            *(Difference(key, None, value) for key, value in self.configs),
        )

    def to_json(self) -> dict[str, Any]:
        after = {
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }
        return action_json(self, None, after)


@dataclass(frozen=True)
class StartOver:
    """Set the source offsets of ``upstream_topic`` back to where its log begins: its copy ``topic`` is lost, and
    everything is copied again. Not while a run is active."""

    kind: ClassVar[str] = "start_over"
    word: ClassVar[str] = "start over"
    job: ClassVar[Job] = Job.TOPICS

    cluster: str
    topic: str
    upstream_topic: str
    reason: str

    def __str__(self) -> str:
        return f"start over with {self.upstream_topic} as {self.topic} on {self.cluster} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("source offsets", "as committed", f"start of {self.upstream_topic}"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(
            self,
            {"source_offsets": "committed"},
            {"source_offsets": "earliest", "upstream_topic": self.upstream_topic},
        )


@dataclass(frozen=True)
class GrowPartitions:
    """Give ``topic`` as many partitions as ``after`` says."""

    kind: ClassVar[str] = "grow_partitions"
    word: ClassVar[str] = "grow"
    job: ClassVar[Job] = Job.TOPICS

    cluster: str
    topic: str
    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        return (
            f"grow topic {self.topic} on {self.cluster} from {self.before} to {counted(self.after, 'partition')} "
            f"({self.reason})"
        )

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("partitions", self.before, self.after),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"partitions": self.before}, {"partitions": self.after})


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting: ``after`` None removes the topic's own value, so that the cluster's default counts."""

    key: str
    before: str | None
    after: str | None
    reason: str

    def __str__(self) -> str:
        after = "the cluster's default" if self.after is None else self.after
        return f"{self.key} {self.before} -> {after} ({self.reason})"


@dataclass(frozen=True)
class AlterConfigs:
    """Change settings of ``topic``; all others stay as they are."""

    kind: ClassVar[str] = "alter_configs"
    word: ClassVar[str] = "alter"
    job: ClassVar[Job] = Job.CONFIGS

    cluster: str
    topic: str
    changes: tuple[SettingChange, ...]
    reason: str

    def __str__(self) -> str:
        return f"alter topic {self.topic} on {self.cluster}: " + "; ".join(str(change) for change in self.changes)

    def differences(self) -> tuple[Difference, ...]:
        return tuple(
            Difference(
                change.key,
                change.before,
                "the cluster's default" if change.after is None else change.after,
                change.reason,
            )
            for change in self.changes
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **action_json(
                self,
                {change.key: change.before for change in self.changes},
                {change.key: change.after for change in self.changes},
            ),
            "reasons": {change.key: change.reason for change in self.changes},
        }


@dataclass(frozen=True)
class UnknownSettings:
    """The settings of ``topic``, or of the one that it is a copy of, cannot be read: an action that always fails, so
    that settings that are not synced never go unnoticed."""

    kind: ClassVar[str] = "sync_settings"
    word: ClassVar[str] = "sync settings"

    cluster: str
    topic: str
    reason: str
    job: Job = Job.CONFIGS

    def __str__(self) -> str:
        return f"{self.word} of topic {self.topic} on {self.cluster}"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("settings", "not known", "not known"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, None, None)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of one action: ``error`` is None or one sentence, ``note`` a remark on a success, ``left_out`` the
    settings that the cluster refused and the topic does without."""

    action: Action
    error: str | None = None
    note: str | None = None
    left_out: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if self.error is not None:
            return f"FAILED: {self.action}: {self.error}"
        return f"done: {self.action}" + (f"; {self.note}" if self.note else "")

    def to_json(self) -> dict[str, Any]:
        return {**self.action.to_json(), "error": self.error, "note": self.note}


def failed(results: Iterable[ActionResult]) -> list[ActionResult]:
    """Those that did not succeed."""
    return [result for result in results if result.error is not None]
