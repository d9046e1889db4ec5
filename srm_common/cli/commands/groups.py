"""``srm-control groups``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.filter_verbs import ListsCommand, Verb, edit, filter_options, history, listed, opened
from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.flow import FlowSettings

VERB = Verb("groups", "groups")
_ALL = "\0all"


@click.command("groups", cls=ListsCommand)
@filter_options(VERB)
@click.option(
    "--explain",
    is_flag=False,
    flag_value=_ALL,
    metavar="[GROUP]",
    help="Say why each group's offsets are or are not translated, and where the lists come from; or of one group.",
)
@pass_invocation
def command(invocation: Invocation, /, explain: str | None, **options: Any) -> Answer:
    """List the consumer groups of the source whose offsets are translated, and why or why not; or edit the lists.

    \b
      srm-control groups --source a --target b --add "billing-.*"
      srm-control groups --flow "a->b" --add-exclude "console-.*" --dry-run

    An edit acts at the flow's next run. A group's offsets are translated on topics that are copied, and on no others.
    """
    chosen, request, store, effective = opened(invocation, VERB, options)
    if request.edit:
        return edit(VERB, chosen, request, store, effective, _effect)
    if request.show:
        return listed(VERB, effective)
    if request.history:
        return history(chosen.settings)
    from srm_common.usecases.groups.decide_groups import decide_groups, explain_group

    chosen.need_source("the listing")
    if explain in (None, _ALL):
        decisions, faults = decide_groups(effective.flow)
    else:
        decision, faults = explain_group(effective.flow, str(explain))
        decisions = [decision]
    notes = [f"Note: {fault.reason}" for fault in faults]
    for one in decisions:
        if one.topics is not None:
            copied, others = one.topics
            notes.append(f"It has offsets on copied topics: {', '.join(copied) or 'none'}")
            notes.append(f"and on topics that are not copied: {', '.join(others) or 'none'}")
        elif explain not in (None, _ALL) and one.state is None:
            notes.append(f"The source has no group {explain}; by its name alone it would be as above.")
    if explain is not None:
        notes += [f"{key}: from {effective.filters.origin_of(key)}" for key in (VERB.include, VERB.exclude)]
    rows = [[one.group, "yes" if one.accepted else "no", one.state, one.reason] for one in decisions]
    return Answer(
        {
            "flow": str(effective.flow.name),
            "from": {key: effective.filters.origin_of(key) for key in (VERB.include, VERB.exclude)},
            "groups": [one.to_json() for one in decisions],
            "faults": [fault.reason for fault in faults],
        },
        [table(["GROUP", "TRANSLATED", "STATE", "WHY"], rows) if rows else "The source has no groups.", *notes],
        exit_code=1 if faults else 0,
        rows=[("group", "translated", "state", "reason"), *rows],
    )


def _effect(before: FlowSettings, after: FlowSettings) -> tuple[set[str], set[str], list[str]]:
    from srm_common.usecases.filters.filter_effect import groups_effect

    found = groups_effect(before, after)
    return set(found.before), set(found.after), list(found.notes)
