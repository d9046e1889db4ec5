"""``srm-control plan`` and ``srm-control apply``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.cli.text_files import read_text, write_text
from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.plans.plan import Plan, PlanFile, plan_file_text
from srm_common.domain.topics.actions import Action, ActionResult, failed

F = TypeVar("F", bound=Callable[..., Any])


def restore_options(command: F) -> F:
    """Both options; the command gets ``recreate`` and ``resume``, tuples of names."""
    recreate = click.option(
        "--recreate",
        multiple=True,
        metavar="TOPIC",
        help="Copy a topic whose copy was deleted, or re-created by others, from its start. May be repeated.",
    )
    resume = click.option(
        "--resume",
        multiple=True,
        metavar="TOPIC",
        help="Continue such a topic where the flow stopped; what was copied before stays lost. May be repeated.",
    )
    return recreate(resume(command))


def choices(recreate: Sequence[str], resume: Sequence[str]) -> dict[str, OnDataLoss]:
    """By topic, for ``plan_topics``. Raises :class:`click.UsageError` for a topic with both."""
    if both := sorted(set(recreate) & set(resume)):
        raise click.UsageError(f"--recreate and --resume both name {both[0]}; choose one")
    return dict.fromkeys(recreate, OnDataLoss.RESET) | dict.fromkeys(resume, OnDataLoss.SKIP)


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
def plan_command(
    invocation: Invocation, flow: str | None, out: Path | None, recreate: tuple[str, ...], resume: tuple[str, ...]
) -> Answer:
    """Print what would change on the target before the flow copies, and why.

    Queries both clusters and changes nothing. The same plan is made and applied at the beginning of each run, when the
    refresh intervals have passed, and by srm-control apply at once.
    """
    from srm_common.usecases.topics.plan_topics import plan_topics

    plan = plan_topics(invocation.flow_now(flow).flow, restore=choices(recreate, resume))
    text = plan_text(plan)
    if out is not None:
        write_text(out, plan_file_text(plan, int(time.time() * 1000)), "plan")
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


@click.command("apply")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing, as srm-control plan does.")
@restore_options
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path), metavar="[PLAN.JSON]")
@config_option
@output_option
@pass_invocation
def apply_command(
    invocation: Invocation,
    flow: str | None,
    dry_run: bool,
    file: Path | None,
    recreate: tuple[str, ...],
    resume: tuple[str, ...],
) -> Answer:
    """Create and update the target's topics for the flow at once, whatever the refresh intervals.

    With a file of "srm-control plan --out" exactly that plan is applied. If anything else has become necessary, the
    command reports what has changed and does nothing. Applying a file again is harmless.

    \b
    Exit codes: 0 all done; 1 an action failed, the file is outdated, or a topic is not copied because
    its copy is lost; 2 the configuration or the file is invalid; 3 a cluster cannot be reached or denies access.
    """
    from srm_common.usecases.topics.plan_topics import plan_topics
    from srm_common.usecases.topics.refresh_topics import refresh_topics

    settings = invocation.flow_now(flow).flow
    restore = choices(recreate, resume)
    printed = None if file is None else PlanFile.parse(read_text(file, "plan"), str(file))
    if printed is not None and restore:
        raise click.UsageError("a file contains its own choices; omit --recreate and --resume")
    if dry_run:
        plan = plan_topics(settings, restore=restore if printed is None else printed.restore)
        if printed is None:
            return Answer(plan.to_json(), plan_text(plan))
        changes = printed.compare(plan)
        if changes.changed:
            return _refused(plan, changes.changed)
        return Answer(
            {**plan.to_json(), "applied": False, "done_before": list(changes.done)},
            [*plan_text(plan), *_done_before(changes.done)],
        )
    if printed is not None:
        return _applied_file(settings, printed)
    refreshed = refresh_topics(settings, at_once=True, restore=restore)
    assert refreshed.plan is not None, "at once: everything is due"
    return _applied(refreshed.plan, refreshed.results, ())


def _applied_file(settings: FlowSettings, printed: PlanFile) -> Answer:
    from srm_common.usecases.topics.apply import apply_printed

    applied = apply_printed(settings, printed)
    if applied.changed:
        return _refused(applied.plan, applied.changed)
    return _applied(applied.plan, applied.results, applied.done)


def _refused(plan: Plan, changed: Sequence[str]) -> Answer:
    text = ["The file is outdated, so nothing was changed:", *(f"  {one}" for one in changed)]
    text.append(f'Look at the new plan with: srm-control plan --flow "{plan.flow}"')
    return Answer({"flow": str(plan.flow), "applied": False, "changed": list(changed), "results": []}, text, 1)


def _applied(plan: Plan, results: Sequence[ActionResult], done: Sequence[str]) -> Answer:
    unhappy = failed(results)
    text: list[RenderableType] = [str(result) for result in results]
    text += _done_before(done)
    if not results:
        text.append("Nothing to do.")
    elif unhappy:
        text.append(f"{counted(len(unhappy), 'action')} of {len(results)} failed; the others are done.")
    text += [f"Not copied: {decision.topic}: {decision.reason}" for decision in plan.lost]
    text += [f"Note: {notice}" for notice in plan.notices]
    data = {
        "flow": str(plan.flow),
        "applied": True,
        "changed": [],
        "results": [result.to_json() for result in results],
        "done_before": list(done),
        "lost": [decision.to_json() for decision in plan.lost],
        "notices": list(plan.notices),
    }
    return Answer(data, text, exit_code=1 if unhappy or plan.lost else 0)


def _done_before(done: Sequence[str]) -> list[str]:
    return [f"no longer needed: {text}" for text in done]
