"""What was read of a flow's clusters before topics are decided on, and which cluster each alias is bound to."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.topic_records import ClusterBinding, TopicRecord, TopicRecords, TopicState
from srm_common.errors import ConfigError

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
    in_file = {alias for one in flow.graph for alias in (one.name.source, one.name.target)} - ids.keys()
    for place, records in sorted(knowledge.records.items()):
        for alias, cluster_id in ids.items():
            bound = records.bindings.get(alias)
            if cluster_id and bound is not None and bound.cluster_id != cluster_id:
                raise ConfigError(
                    f"'{alias}' leads to the Kafka cluster {cluster_id}, but it meant {bound.cluster_id} when it was "
                    f"recorded on '{place}'; correct its addresses, or, when it is to mean the other cluster from now "
                    f"on, run: srm-control rebind --alias {alias}"
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
