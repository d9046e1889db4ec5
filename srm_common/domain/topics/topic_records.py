"""The records of ``srm-meta.internal``, one for each topic that a flow copies. A cluster's records describe what is
copied *into* it. So the records of two clusters are enough for a flow between them: they tell where the data of an
upstream topic came from, and which other flows write to the downstream topic. Nothing here is derived from names, which
can be anything under a custom policy.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.document import NewerDocument
from srm_common.domain.flow import FlowSettings
from srm_common.errors import ConfigError, CorruptRecord


class TopicState(StrEnum):
    """What a flow does with a topic."""

    CLAIMED = "claimed"
    """The flow announced that it will copy the topic, and has not yet looked whether another one did so at the
    same moment. Nothing is copied."""
    REPLICATING = "replicating"
    DELISTED = "delisted"
    """The filters do not choose it any more; the copy stays."""
    SOURCE_DELETED = "source_deleted"
    TARGET_DELETED = "target_deleted"
    RECREATED = "recreated"
    """One of the two was deleted and re-created."""
    CUT = "cut"
    """It was copied until that would have formed a loop or brought the same records twice; see the reason."""


@dataclass(frozen=True, slots=True, order=True)
class Ancestor:
    """A topic whose records were copied into another one. ``alias`` is the cluster's name there."""

    cluster_id: str
    alias: str
    topic: str

    @property
    def place(self) -> tuple[str, str]:
        """Cluster id and topic: the topic's identity, independent of the cluster's alias."""
        return self.cluster_id, self.topic

    def __str__(self) -> str:
        return f"{self.topic} on {self.alias}"


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """That ``flow`` copies ``upstream_topic`` as ``downstream_topic``.

    ``lineage`` are all topics whose records have come into the downstream one by this flow, nearest first: the
    upstream topic itself and its own lineage. ``since_ms`` is when ``state`` began, in milliseconds since the
    epoch. ``policy`` names the policy that formed the name, as :func:`srm_common.domain.policy.policy_name` does.
    ``previous_upstream_ids`` are the ids of earlier topics of the upstream's name, oldest first;
    ``previous_downstream_ids`` those of earlier copies, which are gone, or have the names of earlier policies.
    ``former_downstream_topics`` are copies under the names of earlier policies; they stay as they are.

    A record stands for data that is in the downstream topic or, when it is claimed, soon may be. It continues doing so
    when nothing more is copied, since the data is still there.
    """

    flow: str
    upstream_topic: str
    downstream_topic: str
    upstream_topic_id: str
    downstream_topic_id: str
    upstream_cluster_id: str
    downstream_cluster_id: str
    policy: str
    state: TopicState
    since_ms: int
    lineage: tuple[Ancestor, ...] = ()
    previous_upstream_ids: tuple[str, ...] = ()
    reason: str = ""
    former_downstream_topics: tuple[str, ...] = ()
    previous_downstream_ids: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Flow and upstream topic: a cluster has one record of each."""
        return self.flow, self.upstream_topic

    def to_json(self) -> dict[str, Any]:
        """Plain values; the inverse of :meth:`from_json`. The key's parts are among them, for readers."""
        return {
            "flow": self.flow,
            "upstream_topic": self.upstream_topic,
            "downstream_topic": self.downstream_topic,
            "upstream_topic_id": self.upstream_topic_id,
            "downstream_topic_id": self.downstream_topic_id,
            "upstream_cluster_id": self.upstream_cluster_id,
            "downstream_cluster_id": self.downstream_cluster_id,
            "policy": self.policy,
            "state": str(self.state),
            "since_ms": self.since_ms,
            "lineage": [[ancestor.cluster_id, ancestor.alias, ancestor.topic] for ancestor in self.lineage],
            "previous_upstream_ids": list(self.previous_upstream_ids),
            "reason": self.reason,
            "former_downstream_topics": list(self.former_downstream_topics),
            **({"previous_downstream_ids": list(former)} if (former := self.previous_downstream_ids) else {}),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read plain values. Raises ValueError, TypeError or KeyError if it is not such a record."""
        return cls(
            flow=str(found["flow"]),
            upstream_topic=str(found["upstream_topic"]),
            downstream_topic=str(found["downstream_topic"]),
            upstream_topic_id=str(found["upstream_topic_id"]),
            downstream_topic_id=str(found["downstream_topic_id"]),
            upstream_cluster_id=str(found["upstream_cluster_id"]),
            downstream_cluster_id=str(found["downstream_cluster_id"]),
            policy=str(found["policy"]),
            state=_state(found["state"]),
            since_ms=int(found["since_ms"]),
            lineage=tuple(Ancestor(cluster, alias, topic) for cluster, alias, topic in found["lineage"]),
            previous_upstream_ids=tuple(map(str, found["previous_upstream_ids"])),
            reason=str(found["reason"]),
            former_downstream_topics=tuple(map(str, found["former_downstream_topics"])),
            previous_downstream_ids=tuple(map(str, found.get("previous_downstream_ids", ()))),
        )


def _state(text: str) -> TopicState:
    if text not in list(TopicState):
        raise NewerDocument(f"its state '{text}' is not known")
    return TopicState(text)


@dataclass(frozen=True, slots=True)
class ClusterBinding:
    """That the alias ``alias`` means the Kafka cluster ``cluster_id``, since its first contact or last rebinding."""

    alias: str
    cluster_id: str
    since_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"alias": self.alias, "cluster_id": self.cluster_id, "since_ms": self.since_ms}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read plain values. Raises ValueError, TypeError or KeyError if it is not such a record."""
        return cls(str(found["alias"]), str(found["cluster_id"]), int(found["since_ms"]))


@dataclass(frozen=True)
class TopicRecords:
    """Everything that one cluster's ``srm-meta.internal`` says.

    ``topics`` are by flow and upstream topic, ``bindings`` by alias. ``restored`` are the keys of those topics whose
    records were lost there and are known from elsewhere. ``unreadable`` has a sentence for each record that cannot be
    read, by its key; among ``topics`` may then be what is known of it from elsewhere.
    """

    topics: Mapping[tuple[str, str], TopicRecord] = field(default_factory=dict)
    bindings: Mapping[str, ClusterBinding] = field(default_factory=dict)
    restored: frozenset[tuple[str, str]] = frozenset()
    unreadable: Mapping[tuple[str, str], str] = field(default_factory=dict)
    _feeders: Mapping[str, tuple[TopicRecord, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        feeders: dict[str, tuple[TopicRecord, ...]] = {}
        for record in self.topics.values():
            for name in (record.downstream_topic, *record.former_downstream_topics):
                feeders[name] = (*feeders.get(name, ()), record)
        object.__setattr__(self, "_feeders", feeders)

    @classmethod
    def of(cls, topics: Iterable[TopicRecord] = (), bindings: Iterable[ClusterBinding] = ()) -> Self:
        return cls({topic.key: topic for topic in topics}, {binding.alias: binding for binding in bindings})

    def completed(self, kept: Iterable[TopicRecord]) -> TopicRecords:
        """The same, with those of ``kept`` that are lost here."""
        lost = {record.key: record for record in kept if record.key not in self.topics}
        if not lost:
            return self
        # What cannot be read may be newer than what is known from elsewhere, and stays as it is.
        restored = self.restored | (lost.keys() - self.unreadable.keys())
        return replace(self, topics={**self.topics, **lost}, restored=restored)

    @property
    def readable(self) -> TopicRecords:
        """The same, without the records that cannot be read; for callers that leave out their topics."""
        topics = {key: record for key, record in self.topics.items() if key not in self.unreadable}
        return replace(self, topics=topics, unreadable={}) if self.unreadable else self

    def find(self, flow: object, upstream_topic: str) -> TopicRecord | None:
        """The record of a topic of ``flow`` (a name, or anything whose text is one)."""
        return self.topics.get((str(flow), upstream_topic))

    def of_flow(self, flow: object) -> dict[str, TopicRecord]:
        """The records of one flow, by upstream topic.

        Raises:
            CorruptRecord: one of them cannot be read.
        """
        wanted = str(flow)
        for (name, _), fault in self.unreadable.items():
            if name == wanted:
                raise CorruptRecord(fault)
        return {topic: record for (name, topic), record in self.topics.items() if name == wanted}

    def feeding(self, downstream_topic: str) -> tuple[TopicRecord, ...]:
        """The records of all flows whose data is in ``downstream_topic``, or may be soon."""
        return self._feeders.get(downstream_topic, ())

    def lineage(self, topic: str, cluster_id: str, alias: str) -> tuple[Ancestor, ...]:
        """The lineage of a copy of ``topic`` of this cluster: the topic itself, then all that came into it."""
        ancestors: dict[tuple[str, str], Ancestor] = {}
        for ancestor in (
            Ancestor(cluster_id, alias, topic),
            *(ancestor for record in self.feeding(topic) for ancestor in record.lineage),
        ):
            ancestors.setdefault(ancestor.place, ancestor)
        return tuple(ancestors.values())


# What was read of a flow's clusters before topics are decided on, and which cluster each alias is bound to.


#: How long the claim of a flow that was stopped before it had looked around keeps others from a topic. Longer than a
#: claimer waits before it gives up itself, by more than clocks of two machines may differ.
CLAIM_MS = 90_000


@dataclass(frozen=True)
class Knowledge:
    """What was read of the clusters. The default is nothing: topics are then decided on by their names alone.

    ``records`` are by alias; a cluster that was not asked is absent. ``unreadable`` says why a cluster's could not be
    read. ``now_ms`` is the time of reading, in milliseconds since the epoch.
    """

    source_id: str = ""
    target_id: str = ""
    records: Mapping[str, TopicRecords] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    target_topics: Container[str] = frozenset()
    now_ms: int = 0

    def counts(self, record: TopicRecord) -> bool:
        """Whether the record's upstream data is, or soon may be, in its downstream topic."""
        return record.state is not TopicState.CLAIMED or self.now_ms - record.since_ms < CLAIM_MS


def new_bindings(flow: FlowSettings, knowledge: Knowledge) -> tuple[ClusterBinding, ...]:
    """The bindings that the target does not have yet. A cluster that does not tell its id is not bound.

    An alias is bound to the cluster's id at first contact, and it is an error when that changes: names of remote
    topics, the decisions about circles and all progress are by alias, so that an alias which leads to another cluster
    than before would mix two clusters' data unnoticed.

    Raises:
        ConfigError: source and target are one cluster, an alias means another cluster than before, or two aliases of
            the file mean the same one.
    """
    name = flow.name
    ids = {name.source: knowledge.source_id, name.target: knowledge.target_id}
    if knowledge.source_id and knowledge.source_id == knowledge.target_id:
        raise ConfigError(
            f"'{name.source}' and '{name.target}' lead to the same Kafka cluster {knowledge.source_id}, so that flow "
            f"{name} would copy it into itself; correct the addresses of one of them"
        )
    in_file = {
        alias for graph_flow in flow.graph for alias in (graph_flow.name.source, graph_flow.name.target)
    } - ids.keys()
    for place, records in sorted(knowledge.records.items()):
        for alias, cluster_id in ids.items():
            bound = records.bindings.get(alias)
            if cluster_id and bound is not None and bound.cluster_id != cluster_id:
                raise ConfigError(
                    f"'{alias}' leads to the Kafka cluster {cluster_id}, but led to {bound.cluster_id} when it was "
                    f"recorded on '{place}'; correct its addresses or, if the alias should stand for the new cluster, "
                    f"run: srm-control rebind --alias {alias}"
                )
            for other in records.bindings.values():
                if cluster_id and other.cluster_id == cluster_id and other.alias in in_file:
                    raise ConfigError(
                        f"'{alias}' and '{other.alias}' lead to the same Kafka cluster {cluster_id}, so its "
                        f"topics would be counted twice; correct the addresses of one of them, and run "
                        f"srm-control rebind --alias {other.alias} if that is the one"
                    )
    known = knowledge.records.get(name.target)
    bound_here = {} if known is None else known.bindings
    return tuple(
        ClusterBinding(alias, cluster_id, knowledge.now_ms)
        for alias, cluster_id in ids.items()
        if cluster_id and alias not in bound_here
    )
