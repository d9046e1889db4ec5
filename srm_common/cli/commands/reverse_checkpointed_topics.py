"""``srm-control reverse-checkpointed-topics``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.filter_verbs import ListsCommand, Verb, edit, filter_options, history, listed, opened
from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.output import Answer

VERB = Verb("reverse.checkpointed.topics", "reverse-checkpointed topics", acts=False)


@click.command("reverse-checkpointed-topics", cls=ListsCommand)
@filter_options(VERB)
@pass_invocation
def command(invocation: Invocation, /, **options: Any) -> Answer:
    """Print or edit the list of copies whose consumers' offsets are to be translated back to the original topics.

    \b
      srm-control reverse-checkpointed-topics --source backup --target primary --add primary.orders

    The flow is the one that leads back, and a topic has the name of the copy. All copies are translated back unless
    the list says otherwise. It is kept with the flow's other lists, with the same history.
    """
    chosen, request, store, effective = opened(invocation, VERB, options)
    if request.edit:
        return edit(VERB, chosen, request, store, effective)
    return history(chosen.settings) if request.history else listed(VERB, effective)
