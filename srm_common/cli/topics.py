"""``srm-control topics``."""

from __future__ import annotations

import click

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table


@click.command("topics")
@flow_option
@click.option("--all", "everything", is_flag=True, help="List internal topics too.")
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, flow: str | None, everything: bool) -> Answer:
    """List the topics of the source: which are copied, as what, and why or why not."""
    from srm_common.usecases.plan_topics import decide_topics

    settings = invocation.flow(flow)
    decisions = [
        decision
        for decision in decide_topics(settings)
        if everything or decision.accepted or not settings.policy.is_internal_topic(decision.topic)
    ]
    rows = [
        [decision.topic, "yes" if decision.accepted else "no", decision.remote_topic, decision.reason]
        for decision in decisions
    ]
    return Answer(
        {"flow": str(settings.name), "topics": [decision.to_json() for decision in decisions]},
        [table(["TOPIC", "COPIED", "AS", "WHY"], rows)] if rows else "The source has no topics to copy.",
    )
