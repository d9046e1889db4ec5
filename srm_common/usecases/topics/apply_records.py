"""Write the records of a plan: claim what is new, check for concurrent claims, then record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.actions import ActionResult
from srm_common.domain.topics.copy_graph import Answer, Conflict, CopyGraph
from srm_common.domain.topics.recording import RecordTopic
from srm_common.domain.topics.topic_records import NO_TOPIC_ID, Knowledge, TopicRecord, TopicState, new_bindings
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.usecases.flows.both_clusters import admins, topics_of_both
from srm_common.usecases.flows.cluster_records import Registries, with_clusters
from srm_common.usecases.topics.applying import Applying

#: From the claim to the record; less than others respect a claim (``CLAIM_MS``), by what clocks may differ.
_CLAIM_SECONDS = 45.0


def record_topics(applying: Applying, actions: Sequence[RecordTopic]) -> Iterator[ActionResult]:
    """Before anything else of the plan is done: a copy that appears on the target has a record there already."""
    flow = applying.flow
    begun = time.monotonic()
    new = [action for action in actions if action.is_new]
    factor = flow.internal_replication_factor
    with TopicRegistry(flow.target) as registry:
        registry.write(_claims(new), replication_factor=factor)
        knowledge = _look(flow)
        registry.write((), new_bindings(flow, knowledge), replication_factor=factor)
        conflicts = _conflicts(flow, knowledge, new)
        refused = {action: found.reason for action, found in conflicts.items()}
        given_up = [action for action, found in conflicts.items() if found.answer is Answer.REFUSE]
        if time.monotonic() - begun > _CLAIM_SECONDS:
            late = f"claiming it took longer than {_CLAIM_SECONDS:.0f} s; the next refresh tries again"
            refused |= {action: late for action in new if action not in refused}
        registry.write(
            (
                *(action.after for action in actions if action not in refused),
                *(action.before for action in given_up if action.before is not None),
            ),
            forget=[action.after.key for action in given_up if action.before is None],
            replication_factor=factor,
        )
    applying.blocked |= {action.topic: reason for action, reason in refused.items()}
    for action in actions:
        yield ActionResult(action, error=refused.get(action))


def complete_records(applying: Applying, actions: Iterable[RecordTopic]) -> None:
    """Write down the ids of copies that this plan has created."""
    waiting = [
        action.after
        for action in actions
        if action.after.downstream_topic_id == NO_TOPIC_ID and applying.results[action].error is None
    ]
    if not waiting:
        return
    facts = applying.target.describe_topics(record.downstream_topic for record in waiting)
    with TopicRegistry(applying.flow.target) as registry:
        registry.write(
            replace(record, downstream_topic_id=facts[record.downstream_topic].topic_id)
            for record in waiting
            if record.downstream_topic in facts and facts[record.downstream_topic].topic_id
        )


def _claims(actions: Iterable[RecordTopic]) -> Iterator[TopicRecord]:
    now_ms = int(time.time() * 1000)
    for action in actions:
        yield replace(action.after, state=TopicState.CLAIMED, since_ms=now_ms)


def _look(flow: FlowSettings) -> Knowledge:
    source, target = admins(flow)
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-claim") as pool:
        registries = Registries.fetch(flow, pool)
        here, there = topics_of_both(pool, source, target)
        return registries.knowledge(flow, here, there)


def _conflicts(flow: FlowSettings, knowledge: Knowledge, actions: Sequence[RecordTopic]) -> dict[RecordTopic, Conflict]:
    while True:
        graph = CopyGraph(flow, knowledge)
        found = {
            action: conflict
            for action in actions
            if (conflict := graph.conflict(action.after.upstream_topic, action.topic)) is not None
        }
        ask = {alias for conflict in found.values() for alias in conflict.ask}
        if not ask:
            return found
        knowledge = with_clusters(flow, knowledge, ask)
