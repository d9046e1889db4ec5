"""Transforms and statements that are for none of the copied topics. Mostly they have the name of the wrong side:
Connect's predicates see the names of copies, as in MirrorMaker 2, and statements those at the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import has_heartbeats
from srm_common.domain.patterns.java_regex import compile_java_regex
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.transforms.statements import statement_for


def idle_steps(flow: FlowSettings, decisions: Sequence[TopicDecision]) -> Iterator[str]:
    """A sentence about each transform and statement that changes no record of the topics that are copied."""
    copied = [
        (one.topic, one.remote_topic)
        for one in decisions
        if one.accepted and one.remote_topic is not None and not has_heartbeats(flow, one.topic)
    ]
    if not copied:
        return
    first, copy = min(copied)
    of_none = "applies to none of the copied topics"
    for step in flow.transforms:
        if step.predicate is None or any(step.concerns(remote) for _, remote in copied):
            continue
        key, expression = f"predicates.{step.predicate.alias}.pattern", step.predicate.argument
        why = "matches all of them, and negate is true" if step.negate else "matches none of them"
        text = f"transforms.{step.alias} {of_none}: {key} = {expression} {why}"
        if not step.negate and any(compile_java_regex(expression).matches(topic) for topic, _ in copied):
            text += f"; it is compared with names on the target, such as {copy}, not with those at the source"
        yield text
    used = {statement_for(topic, flow.statements) for topic, _ in copied}
    for number, statement in enumerate(flow.statements):
        if number in used:
            continue
        if any(statement.concerns(topic) for topic, _ in copied):
            yield f"{statement.key} {of_none}: statements before it are for all those that it matches"
            continue
        text = f"{statement.key} {of_none}: {statement.key}.topics = {statement.topics} matches none of them"
        if any(statement.concerns(remote) for _, remote in copied):
            text += f"; it is compared with names at the source, such as {first}, not with those on the target"
        yield text
