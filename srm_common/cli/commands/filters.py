"""``srm-control topics``, ``groups`` and ``reverse-checkpointed-topics``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.filter_verbs import ListsCommand, Verb, filter_options, listed, of_lists, opened, origins
from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.flow import FlowSettings

TOPICS = Verb("topics", "topics")
_ALL = "\0all"


@click.command("topics", cls=ListsCommand)
@filter_options(TOPICS)
@click.option(
    "--explain",
    is_flag=False,
    flag_value=_ALL,
    metavar="[TOPIC]",
    help="Say why each topic is or is not copied, and where the lists come from; or only TOPIC, which need not exist.",
)
@click.option("--all", "everything", is_flag=True, help="List internal topics too.")
@pass_invocation
def topics_command(invocation: Invocation, /, explain: str | None, everything: bool, **options: Any) -> Answer:
    """List the topics of the source: which are copied, as what, and why or why not; or edit the lists that say so.

    \b
      srm-control topics --source a --target b --add "orders.*,payments" --now
      srm-control topics --flow "a->b" --add-exclude "orders\\.test.*" --dry-run
      srm-control topics --flow "a->b" --list

    An edit takes effect in the flow's next run. Expressions are Java's and match whole names; exclusion wins.
    """
    chosen, request, store, effective = opened(invocation, TOPICS, options)
    answer = of_lists(TOPICS, chosen, request, store, effective, _topics_effect)
    if answer is not None:
        return answer
    from srm_common.domain.topics.selection import select_topics
    from srm_common.usecases.topics.plan_topics import decide_topics

    chosen.need_source("the listing")
    flow = effective.flow
    topic_decisions = decide_topics(flow)
    notes: list[str] = []
    if explain not in (None, _ALL):
        decisions = [decision for decision in topic_decisions if decision.topic == explain]
        if not decisions:
            notes.append(f"The source has no topic {explain}; by its name alone it would be as above.")
            decisions = select_topics(flow, [str(explain)])
    else:
        everything = everything or explain == _ALL
        decisions = [
            decision
            for decision in topic_decisions
            if everything or decision.accepted or not flow.policy.is_internal_topic(decision.topic)
        ]
    if explain is not None:
        notes += [f"{key}: from {origin}" for key, origin in origins(TOPICS, effective).items()]
    rows = [
        [decision.topic, "yes" if decision.accepted else "no", decision.remote_topic, decision.reason]
        for decision in decisions
    ]
    return Answer(
        {
            "flow": str(flow.name),
            "from": origins(TOPICS, effective),
            "topics": [decision.to_json() for decision in decisions],
        },
        [table(["TOPIC", "COPIED", "AS", "WHY"], rows) if rows else "The source has no topics to copy.", *notes],
        rows=[("topic", "copied", "remote_topic", "reason"), *rows],
    )


def _topics_effect(before: FlowSettings, after: FlowSettings) -> tuple[set[str], set[str], list[str]]:
    from srm_common.usecases.filters.filter_effect import topics_effect

    effect = topics_effect(before, after)
    was, becomes = (
        {decision.topic for decision in side if decision.accepted} for side in (effect.before, effect.after)
    )
    return was, becomes, list(effect.notes)


GROUPS = Verb("groups", "groups")


@click.command("groups", cls=ListsCommand)
@filter_options(GROUPS)
@click.option(
    "--explain",
    is_flag=False,
    flag_value=_ALL,
    metavar="[GROUP]",
    help="Say why each group's offsets are or are not translated, and where the lists come from; or only GROUP's.",
)
@pass_invocation
def groups_command(invocation: Invocation, /, explain: str | None, **options: Any) -> Answer:
    """List the consumer groups of the source whose offsets are translated, and why or why not; or edit the lists.

    \b
      srm-control groups --source a --target b --add "billing-.*"
      srm-control groups --flow "a->b" --add-exclude "console-.*" --dry-run

    An edit takes effect in the flow's next run. A group's offsets are translated only on topics that are copied.
    """
    chosen, request, store, effective = opened(invocation, GROUPS, options)
    answer = of_lists(GROUPS, chosen, request, store, effective, _groups_effect)
    if answer is not None:
        return answer
    from srm_common.usecases.groups.decide_groups import decide_groups, explain_group

    chosen.need_source("the listing")
    if explain in (None, _ALL):
        decisions, faults = decide_groups(effective.flow)
    else:
        decision, faults = explain_group(effective.flow, str(explain))
        decisions = [decision]
    notes = [f"Note: {fault.reason}" for fault in faults]
    for group_decision in decisions:
        if group_decision.topics is not None:
            copied, others = group_decision.topics
            notes.append(f"It has offsets on copied topics: {', '.join(copied) or 'none'}")
            notes.append(f"and on topics that are not copied: {', '.join(others) or 'none'}")
        elif explain not in (None, _ALL) and group_decision.state is None:
            notes.append(f"The source has no group {explain}; by its name alone it would be as above.")
    if explain is not None:
        notes += [f"{key}: from {origin}" for key, origin in origins(GROUPS, effective).items()]
    rows = [
        [group_decision.group, "yes" if group_decision.accepted else "no", group_decision.state, group_decision.reason]
        for group_decision in decisions
    ]
    return Answer(
        {
            "flow": str(effective.flow.name),
            "from": origins(GROUPS, effective),
            "groups": [group_decision.to_json() for group_decision in decisions],
            "faults": [fault.reason for fault in faults],
        },
        [table(["GROUP", "TRANSLATED", "STATE", "WHY"], rows) if rows else "The source has no groups.", *notes],
        exit_code=1 if faults else 0,
        rows=[("group", "translated", "state", "reason"), *rows],
    )


def _groups_effect(before: FlowSettings, after: FlowSettings) -> tuple[set[str], set[str], list[str]]:
    from srm_common.usecases.filters.filter_effect import groups_effect

    effect = groups_effect(before, after)
    return set(effect.before), set(effect.after), list(effect.notes)


REVERSE = Verb("reverse.checkpointed.topics", "reverse-checkpointed topics", acts=False)


@click.command("reverse-checkpointed-topics", cls=ListsCommand)
@filter_options(REVERSE)
@pass_invocation
def reverse_checkpointed_topics_command(invocation: Invocation, /, **options: Any) -> Answer:
    """Print or edit the list of copies whose consumers' offsets are to be translated back to the original topics.

    \b
      srm-control reverse-checkpointed-topics --source backup --target primary --add primary.orders

    The flow is the one that leads back, and a topic has the name of the copy. All copies are translated back unless
    the list says otherwise. It is kept with the flow's other lists, with the same history.
    """
    chosen, request, store, effective = opened(invocation, REVERSE, options)
    return of_lists(REVERSE, chosen, request, store, effective) or listed(REVERSE, effective)
