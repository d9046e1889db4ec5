"""Topics that are deleted or re-created on either side, identified by topic ids, and what a flow does about it.

===========================  ==========================================================================
the source topic is gone     its copy is kept and marked (``SOURCE_DELETED``)
... and re-created           ``on.data.loss`` decides, when the run finds it (:mod:`srm_common.domain.runs.data_loss`)
the filters drop a topic     its copy is kept and marked (``DELISTED``)
the copy is gone             ``on.target.loss``: ``fail`` refuses the topic (``TARGET_DELETED``), so that what was
                             deleted does not come back by accident; ``skip`` makes it again and continues where the
                             flow stopped; ``reset`` makes it again and copies everything again
... and made by others       the same choice: committed source offsets do not describe the new topic (``RECREATED``)
===========================  ==========================================================================

Ids that are not known (brokers before Kafka 2.8, topics that were never recorded) are taken for the same topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.topic_id import is_another_topic
from srm_common.domain.topics.selection import RECORD_UNREADABLE, TopicDecision
from srm_common.domain.topics.topic_records import TopicRecord, TopicState

#: Refusals by the filters. The others mean that the topic must not be copied at all.
_BY_FILTERS = frozenset({"excluded", "not_included"})
#: Codes of the decisions made here.
SOURCE_DELETED, TARGET_DELETED, TARGET_RECREATED = "source_deleted", "target_deleted", "target_recreated"
#: The code where it is not known whether a copy is lost.
TARGET_DOUBTFUL = "target_doubtful"
#: Refusals that need an operator: data, or what is recorded of it, is missing on the target.
LOSSES = frozenset({TARGET_DELETED, TARGET_RECREATED, RECORD_UNREADABLE})


@dataclass(frozen=True)
class TopicIds:
    """Current ids by topic name, on both clusters. Topics that do not exist are absent; an unknown id is ""."""

    source: Mapping[str, str] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of a topic: the decision, and the state to record, None where nothing is recorded.

    ``start_over``: its committed source offsets are not to be used any more, everything is copied again.
    ``notice`` is what a person should know.
    """

    decision: TopicDecision
    state: TopicState | None = None
    reason: str = ""
    start_over: bool = False
    notice: str | None = None


def settle(
    flow: FlowSettings,
    decisions: Sequence[TopicDecision],
    records: Mapping[str, TopicRecord],
    ids: TopicIds,
    restore: Mapping[str, OnDataLoss] | None = None,
    doubtful: Mapping[str, str] | None = None,
) -> list[Settled]:
    """Compare the decisions with what is recorded of the flow's topics; those that are gone get decisions, too.

    Args:
        records: the flow's own, by upstream topic.
        ids: of the accepted and the recorded topics at least.
        restore: a choice for single topics, by upstream topic, that wins over ``on.target.loss`` this once.
        doubtful: copies that may exist though ``ids`` do not have them, each with a sentence; of their topics nothing
            is decided.
    """
    unsure = doubtful or {}
    settled = [
        _doubted(decision, why)
        if decision.accepted and (why := unsure.get(decision.remote_topic or "")) is not None
        else _settled(flow, decision, records.get(decision.topic), ids, restore or {})
        for decision in decisions
    ]
    listed = {decision.topic for decision in decisions}
    return settled + [_gone(flow, record) for topic, record in sorted(records.items()) if topic not in listed]


def unlisted_copies(
    decisions: Sequence[TopicDecision], records: Mapping[str, TopicRecord], ids: TopicIds
) -> frozenset[str]:
    """The copies that :func:`settle` would take for deleted."""
    return frozenset(
        record.downstream_topic
        for decision in decisions
        if decision.accepted
        and (record := records.get(decision.topic)) is not None
        and record.downstream_topic_id
        and record.downstream_topic == decision.remote_topic
        and record.downstream_topic not in ids.target
    )


def restorable(records: Mapping[str, TopicRecord], choices: Mapping[str, OnDataLoss]) -> dict[str, OnDataLoss]:
    """Choices by name of a topic or of its copy, as choices by upstream topic.

    Raises KeyError with the first name that is neither.
    """
    upstream = {record.downstream_topic: topic for topic, record in records.items()}
    return {name if name in records else upstream[name]: choice for name, choice in choices.items()}


def _settled(
    flow: FlowSettings,
    decision: TopicDecision,
    record: TopicRecord | None,
    ids: TopicIds,
    restore: Mapping[str, OnDataLoss],
) -> Settled:
    if not decision.accepted:
        if record is None or decision.code not in _BY_FILTERS or record.state is TopicState.CUT:
            return Settled(decision)
        reason = f"{decision.reason}; its copy {record.downstream_topic} is kept"
        return Settled(replace(decision, reason=reason), TopicState.DELISTED, decision.reason)
    if record is not None and record.downstream_topic != decision.remote_topic:
        return _renamed(decision, record)
    if record is None or not record.downstream_topic_id:
        return Settled(decision, TopicState.REPLICATING)
    remote = record.downstream_topic
    exists = remote in ids.target
    lost = _lost(flow, record, exists, ids)
    if lost is None:
        return _source_recreated(flow, decision, record, ids) or Settled(decision, TopicState.REPLICATING)
    if not exists and (new := _made_again(flow, decision, record, ids)) is not None:
        return new
    code, what = lost
    choice = restore.get(decision.topic, flow.on_target_loss)
    if choice is OnDataLoss.FAIL:
        state = TopicState.RECREATED if exists else TopicState.TARGET_DELETED
        return Settled(
            replace(decision, accepted=False, reason=f"{what}; {_way_out(flow, decision)}", code=code), state
        )
    again = choice is OnDataLoss.RESET
    doing = "everything is copied again" if again else "copying continues where the flow stopped"
    return Settled(decision, TopicState.REPLICATING, start_over=again, notice=f"{what}; {doing}")


def _doubted(decision: TopicDecision, why: str) -> Settled:
    refused = replace(decision, accepted=False, reason=why, code=TARGET_DOUBTFUL)
    return Settled(refused, notice=f"{decision.topic} is not changed: {why}")


def _renamed(decision: TopicDecision, record: TopicRecord) -> Settled:
    """After a forced switch of policy the offset map describes another topic, so that the new one starts over."""
    if record.state is TopicState.CLAIMED:  # nothing was copied under the other name
        return Settled(decision, TopicState.REPLICATING)
    notice = f"{decision.topic} is copied again as {decision.remote_topic}; {record.downstream_topic} stays as it is"
    return Settled(decision, TopicState.REPLICATING, start_over=True, notice=notice)


def _lost(flow: FlowSettings, record: TopicRecord, exists: bool, ids: TopicIds) -> tuple[str, str] | None:
    """Code and sentence when the copy is not the one that the flow wrote into."""
    remote, target = record.downstream_topic, flow.name.target
    if not exists:
        return TARGET_DELETED, f"{remote} was deleted on {target}"
    now = ids.target[remote]
    if not is_another_topic(record.downstream_topic_id, now):
        return None
    return (
        TARGET_RECREATED,
        f"{remote} on {target} was deleted and re-created by others (id {record.downstream_topic_id} became {now}), "
        "so what was copied before is gone",
    )


def _way_out(flow: FlowSettings, decision: TopicDecision) -> str:
    command = f'srm-control apply --flow "{flow.name}"'
    return (
        f"copy everything again with: {command} --recreate {decision.topic}, or continue where the flow stopped with: "
        f"{command} --resume {decision.topic}, or remove the topic from the filters"
    )


def _made_again(flow: FlowSettings, decision: TopicDecision, record: TopicRecord, ids: TopicIds) -> Settled | None:
    """A new topic, after the source's and then the copy were deleted: nothing is left of the former one.

    Not under ``on.data.loss = fail``: its owner may have deleted both, or the source was lost and restored.
    """
    again = is_another_topic(record.upstream_topic_id, ids.source.get(decision.topic))
    if record.state is not TopicState.SOURCE_DELETED or not again or flow.on_data_loss is OnDataLoss.FAIL:
        return None
    notice = (
        f"{decision.topic} was created again on {flow.name.source}, after it and its copy {record.downstream_topic} "
        f"were deleted; on.data.loss = {flow.on_data_loss}: the new topic is copied from its start"
    )
    return Settled(decision, TopicState.REPLICATING, start_over=True, notice=notice)


def _source_recreated(
    flow: FlowSettings, decision: TopicDecision, record: TopicRecord, ids: TopicIds
) -> Settled | None:
    now = ids.source.get(decision.topic)
    if not is_another_topic(record.upstream_topic_id, now):
        return None
    what = (
        f"{decision.topic} was deleted and re-created on {flow.name.source} (id {record.upstream_topic_id} became "
        f"{now}); on.data.loss = {flow.on_data_loss}"
    )
    if flow.on_data_loss is OnDataLoss.FAIL:
        # The id stays the former one until the operator decides.
        notice = f"{what}: its partitions are not copied until that is skip or reset"
        return Settled(decision, TopicState.RECREATED, what, notice=notice)
    return Settled(decision, TopicState.REPLICATING, notice=f"{what}: the new topic is copied from its start")


def _gone(flow: FlowSettings, record: TopicRecord) -> Settled:
    reason = f"deleted on {flow.name.source}; its copy {record.downstream_topic} is kept"
    decision = TopicDecision(record.upstream_topic, False, reason, record.downstream_topic, SOURCE_DELETED)
    return Settled(decision, TopicState.SOURCE_DELETED, f"deleted on {flow.name.source}")
