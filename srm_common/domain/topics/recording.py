"""What is written to ``srm-meta.internal`` about the topics of a flow, as actions of its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import policy_name
from srm_common.domain.topic_id import NO_TOPIC_ID, is_another_topic
from srm_common.domain.topics.actions import Difference, Job, action_json
from srm_common.domain.topics.copy_graph import CopyGraph
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import Ancestor, Knowledge, TopicRecord, TopicState

#: Refusals after which a topic that was copied counts as cut off.
_CUTS = frozenset({"cycle", "diamond"})
_LOST = "srm-meta.internal has lost it; it is restored from the flow's state"


@dataclass(frozen=True)
class RecordTopic:
    """Write ``after`` to the records of ``cluster`` in place of ``before`` (None: there was none).

    A topic that was not copied before is claimed first, and recorded when no other flow has claimed what would make
    it arrive in a loop or twice; its records are copied only then.
    """

    kind: ClassVar[str] = "record_topic"
    word: ClassVar[str] = "record"
    job: ClassVar[Job] = Job.TOPICS

    cluster: str
    before: TopicRecord | None
    after: TopicRecord
    reason: str

    @property
    def topic(self) -> str:
        return self.after.downstream_topic

    @property
    def replaces_copy(self) -> bool:
        """Whether the offset map so far is about another copy than the one from now on."""
        before = self.before
        if before is None or before.state is TopicState.CLAIMED:
            return False
        renamed = before.downstream_topic != self.after.downstream_topic
        return renamed or before.previous_downstream_ids != self.after.previous_downstream_ids

    @property
    def is_new(self) -> bool:
        """Whether copying begins, so that others have to be asked first."""
        return self.after.state is TopicState.REPLICATING and (
            self.before is None
            or self.before.state is not TopicState.REPLICATING
            or self.before.downstream_topic != self.after.downstream_topic
        )

    def __str__(self) -> str:
        after = self.after
        return (
            f"record on {self.cluster} that {after.flow} has {after.upstream_topic} as {self.topic}: {after.state} "
            + (f"({self.reason})")
        )

    def differences(self) -> tuple[Difference, ...]:
        before, after = _described(self.before), _described(self.after)
        return tuple(
            Difference(key, before.get(key), value) for key, value in after.items() if value != before.get(key)
        )

    def to_json(self) -> dict[str, Any]:
        # Without times and ids, so that the same plan compares equal.
        return action_json(self, _described(self.before) or None, _described(self.after))


def plan_records(
    flow: FlowSettings,
    knowledge: Knowledge,
    outcomes: Iterable[tuple[TopicDecision, TopicState | None, str]],
    source_ids: Mapping[str, str],
    target_ids: Mapping[str, str],
) -> list[RecordTopic]:
    """The records that have to be written, none where nothing changed.

    Args:
        outcomes: every decision with the state to record (None: what follows from the decision) and why. Topics that
            are recorded and exist no more at the source are to be among them.
        source_ids, target_ids: topic ids by name; a topic that does not exist (yet) is absent.
    """
    graph = CopyGraph(flow, knowledge)
    known = knowledge.records.get(flow.name.target)
    records = {} if known is None else known.readable.of_flow(flow.name)
    restored = frozenset() if known is None else known.restored
    actions = []
    for decision, state, reason in outcomes:
        before = records.get(decision.topic)
        after: TopicRecord | None = None
        if decision.accepted and decision.remote_topic is not None:
            ids = source_ids.get(decision.topic, NO_TOPIC_ID), target_ids.get(decision.remote_topic)
            after = _copied(flow, knowledge, graph, decision, before, state or TopicState.REPLICATING, ids)
        elif before is not None and before.state is not TopicState.CLAIMED:
            stopped = TopicState.CUT if state is None and decision.code in _CUTS else state
            if stopped is not None and stopped is not before.state:
                after = replace(before, state=stopped, since_ms=knowledge.now_ms, reason=reason or decision.reason)
        if before is not None and before.key in restored and after in (None, before):
            actions.append(RecordTopic(flow.name.target, before, before, _LOST))
        elif after is not None and after != before:
            actions.append(RecordTopic(flow.name.target, before, after, _why(before, after)))
    return actions


def _copied(
    flow: FlowSettings,
    knowledge: Knowledge,
    graph: CopyGraph,
    decision: TopicDecision,
    before: TopicRecord | None,
    state: TopicState,
    ids: tuple[str, str | None],
) -> TopicRecord:
    assert decision.remote_topic is not None
    upstream_id, downstream_id = ids[0], ids[1] or NO_TOPIC_ID
    lineage = graph.lineage(decision.topic)
    previous: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    since_ms = knowledge.now_ms
    if before is not None:
        # What once came into the copy is in it still.
        lineage = _together(lineage, before.lineage)
        upstream_id = upstream_id or before.upstream_topic_id
        if ids[1] is not None:  # else the copy is re-created, and will have another id
            downstream_id = downstream_id or before.downstream_topic_id
        previous, copies = before.previous_upstream_ids, before.previous_downstream_ids
        if _is_another_copy(before, decision.remote_topic, ids[1]):
            copies = (*copies, before.downstream_topic_id)
        if is_another_topic(before.upstream_topic_id, upstream_id):
            if state is TopicState.RECREATED:
                upstream_id = before.upstream_topic_id  # until the operator decides about the new one
            else:
                previous = (*previous, before.upstream_topic_id)
        former = tuple(name for name in before.former_downstream_topics if name != decision.remote_topic)
        if before.downstream_topic != decision.remote_topic:
            former = (*former, before.downstream_topic)
            downstream_id = ids[1] or NO_TOPIC_ID
        elif before.state is state:
            since_ms = before.since_ms
    return TopicRecord(
        flow=str(flow.name),
        upstream_topic=decision.topic,
        downstream_topic=decision.remote_topic,
        upstream_topic_id=upstream_id,
        downstream_topic_id=downstream_id,
        upstream_cluster_id=graph.source,
        downstream_cluster_id=graph.target,
        policy=policy_name(flow.policy),
        state=state,
        since_ms=since_ms,
        lineage=lineage,
        previous_upstream_ids=previous,
        former_downstream_topics=former,
        previous_downstream_ids=copies,
    )


def _is_another_copy(before: TopicRecord, copy: str, topic_id: str | None) -> bool:
    """Whether what was copied before is not in ``copy``.

    Args:
        topic_id: of the copy now, None where there is none yet.
    """
    if not before.downstream_topic_id:
        return False
    gone = topic_id is None or is_another_topic(before.downstream_topic_id, topic_id)
    return gone or before.downstream_topic != copy


def _together(lineage: tuple[Ancestor, ...], earlier: tuple[Ancestor, ...]) -> tuple[Ancestor, ...]:
    places = {ancestor.place for ancestor in lineage}
    return (*lineage, *(ancestor for ancestor in earlier if ancestor.place not in places))


def _described(record: TopicRecord | None) -> dict[str, str]:
    if record is None:
        return {}
    return {
        "flow": record.flow,
        "upstream_topic": record.upstream_topic,
        "policy": record.policy,
        "state": str(record.state),
        "lineage": ", ".join(str(ancestor) for ancestor in record.lineage),
    }


def _why(before: TopicRecord | None, after: TopicRecord) -> str:
    if before is None:
        return f"named by {after.policy}"
    if before.downstream_topic != after.downstream_topic:
        return f"named by {after.policy} now; {before.downstream_topic} stays as it is"
    if before.state is not after.state:
        return after.reason or f"it was {before.state}"
    if before.lineage != after.lineage:
        more = [str(ancestor) for ancestor in after.lineage if ancestor not in before.lineage]
        return f"records of {', '.join(more)} come with it"
    return "its topic ids or its policy have changed"
