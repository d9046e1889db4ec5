"""``srm-control topics``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.filter_verbs import ListsCommand, Verb, edit, filter_options, history, listed, opened
from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.flow import FlowSettings

VERB = Verb("topics", "topics")
_ALL = "\0all"


@click.command("topics", cls=ListsCommand)
@filter_options(VERB)
@click.option(
    "--explain",
    is_flag=False,
    flag_value=_ALL,
    metavar="[TOPIC]",
    help="Say why each topic is or is not copied, and where the lists come from; or of one, which need not exist.",
)
@click.option("--all", "everything", is_flag=True, help="List internal topics too.")
@pass_invocation
def command(invocation: Invocation, /, explain: str | None, everything: bool, **options: Any) -> Answer:
    """List the topics of the source: which are copied, as what, and why or why not; or edit the lists that say so.

    \b
      srm-control topics --source a --target b --add "orders.*,payments" --now
      srm-control topics --flow "a->b" --add-exclude "orders\\.test.*" --dry-run
      srm-control topics --flow "a->b" --list

    An edit acts at the flow's next run. Expressions are Java's and match whole names; what is left out wins.
    """
    chosen, request, store, effective = opened(invocation, VERB, options)
    if request.edit:
        return edit(VERB, chosen, request, store, effective, _effect)
    if request.show:
        return listed(VERB, effective)
    if request.history:
        return history(chosen.settings)
    from srm_common.domain.topics.selection import select_topics
    from srm_common.usecases.topics.plan_topics import decide_topics

    chosen.need_source("the listing")
    flow = effective.flow
    found = decide_topics(flow)
    notes: list[str] = []
    if explain not in (None, _ALL):
        decisions = [one for one in found if one.topic == explain]
        if not decisions:
            notes.append(f"The source has no topic {explain}; by its name alone it would be as above.")
            decisions = select_topics(flow, [str(explain)])
    else:
        everything = everything or explain == _ALL
        decisions = [one for one in found if everything or one.accepted or not flow.policy.is_internal_topic(one.topic)]
    if explain is not None:
        origin = effective.filters.origin_of
        notes += [f"{key}: from {origin(key)}" for key in (VERB.include, VERB.exclude)]
    rows = [[one.topic, "yes" if one.accepted else "no", one.remote_topic, one.reason] for one in decisions]
    return Answer(
        {
            "flow": str(flow.name),
            "from": {key: effective.filters.origin_of(key) for key in (VERB.include, VERB.exclude)},
            "topics": [one.to_json() for one in decisions],
        },
        [table(["TOPIC", "COPIED", "AS", "WHY"], rows) if rows else "The source has no topics to copy.", *notes],
        rows=[("topic", "copied", "remote_topic", "reason"), *rows],
    )


def _effect(before: FlowSettings, after: FlowSettings) -> tuple[set[str], set[str], list[str]]:
    from srm_common.usecases.filters.filter_effect import topics_effect

    found = topics_effect(before, after)
    was, becomes = ({one.topic for one in side if one.accepted} for side in (found.before, found.after))
    return was, becomes, list(found.notes)
