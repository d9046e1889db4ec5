"""``srm-control plan``."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.cli.restore_options import choices, restore_options
from srm_common.domain.plans.plan import Plan, plan_file_text
from srm_common.domain.topics.actions import Action
from srm_common.errors import ConfigError


@click.command("plan")
@flow_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan to a file, too, for srm-control apply.",
)
@restore_options
@config_option
@output_option
@pass_invocation
def command(
    invocation: Invocation, flow: str | None, out: Path | None, recreate: tuple[str, ...], resume: tuple[str, ...]
) -> Answer:
    """Print what would change on the target before the flow copies, and why.

    Looks at both clusters and changes nothing. The same plan is made and carried out at the beginning of each run, as
    far as the refresh intervals say, and by srm-control apply at once.
    """
    from srm_common.usecases.topics.plan_topics import plan_topics

    plan = plan_topics(invocation.flow_now(flow).flow, restore=choices(recreate, resume))
    text = plan_text(plan)
    if out is not None:
        try:
            out.write_text(plan_file_text(plan, int(time.time() * 1000)), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the plan cannot be written: {error}", file=str(out)) from error
        text.append(f'Written to {out}. Carry it out with: srm-control apply --flow "{plan.flow}" {out}')
    return Answer(plan.to_json(), text)


def plan_text(plan: Plan) -> list[RenderableType]:
    """A plan for people."""
    copied = len(plan.accepted)
    text: list[RenderableType] = [f"{plan.flow}: {copied} of {len(plan.decisions)} topics are copied"]
    rows = [row for action in plan.actions for row in _rows(action)]
    if rows:
        text += ["", table(["ACTION", "TOPIC", "WHAT", "BEFORE", "AFTER", "WHY"], rows)]
    else:
        text.append("Nothing to do.")
    refused = [decision for decision in plan.decisions if not decision.accepted and decision.remote_topic]
    text += [f"Refused: {decision.topic}: {decision.reason}" for decision in refused]
    text += [f"Note: {notice}" for notice in plan.notices]
    return text


def _rows(action: Action) -> list[list[object]]:
    return [
        [
            *((action.word, action.topic) if first else ("", "")),
            one.what,
            one.before,
            one.after,
            one.reason or (action.reason if first else ""),
        ]
        for first, one in zip([True] + [False] * len(action.differences()), action.differences(), strict=False)
    ]
