"""``srm-control failover``, ``failback`` and ``switch-direction``."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.airflow_rest import URL, AirflowRest
from srm_common.cli.invocation import (
    Invocation,
    Seconds,
    config_option,
    flow_option,
    given,
    output_option,
    pass_invocation,
)
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import duration
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, PositionReport, StepName
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import AirflowError
from srm_common.usecases.moving.failover import Move, failback
from srm_common.usecases.moving.switch_direction import SwitchMove
from srm_common.usecases.offsets.resume_points import opposite

F = TypeVar("F", bound=Callable[..., Any])
#: Positions in the table for people; JSON has all.
_ROWS = 40


def move_options(*modes: MoveMode) -> Callable[[F], F]:
    """``--flow``, ``--mode`` and the others; the first of ``modes`` is the default."""

    def add(command: F) -> F:
        for option in (
            click.option("--master", metavar="URL", help="Spark's master for the last pass.  [default: local]"),
            click.option(
                "--no-last-pass",
                is_flag=True,
                help="Do not copy what is left; wait for the runs of the flow's DAG instead.",
            ),
            click.option(
                "--wait",
                type=Seconds(),
                default=60.0,
                show_default=True,
                metavar="SECONDS",
                help="How long a step waits for clusters, consumers and the copy.",
            ),
            click.option("--dry-run", is_flag=True, help="Print where groups would resume, and change nothing."),
            click.option(
                "--group", "groups", multiple=True, metavar="G", help="Only this group; may be given more than once."
            ),
            click.option(
                "--mode",
                type=click.Choice([str(mode) for mode in modes]),
                default=str(modes[0]),
                show_default=True,
                help="Which clients are stopped, and whether the source is up.",
            ),
        ):
            command = option(command)
        return flow_option(config_option(output_option(command)))

    return add


def request_of(kind: MoveKind, options: dict[str, Any]) -> MoveRequest:
    """The request that the options describe. Raises :class:`ConfigError`."""
    groups = given("--group", options["groups"]) or None
    return MoveRequest(kind, MoveMode(options["mode"]), groups, options["dry_run"], float(options["wait"]))


def settings_now(invocation: Invocation, flow: str | None, mode: MoveMode) -> FlowSettings:
    """The flow with its edited lists; in a disaster also if the Airflow that keeps them does not respond."""
    try:
        return invocation.flow_now(flow).flow
    except AirflowError as error:
        if mode is not MoveMode.DISASTER:
            raise
        _say(f"warning: {error}; the lists of the properties file apply")
        return invocation.flow(flow)


def last_pass(master: str | None) -> Callable[[FlowSettings], RunRecord]:
    """Prepares topics and copies once, as ``srm-control run`` does."""

    def copy(flow: FlowSettings) -> RunRecord:
        from srm_common.cli.commands.run import pass_runner
        from srm_common.usecases.flows.flow_clusters import FlowClusters
        from srm_common.usecases.runs.replicate import replicate
        from srm_common.usecases.topics.refresh_topics import refresh_topics

        run_id = f"move__{time.strftime('%Y-%m-%dT%H:%M:%S')}__{uuid.uuid4().hex[:6]}"
        with FlowClusters(flow) as clusters:
            refresh_topics(clusters, at_once=True)
            return replicate(clusters, RunOptions(run_id, max_seconds=0.0), pass_runner(flow, master))

    return copy


def carry_out(move: Move, flow: FlowSettings, request: MoveRequest) -> Answer:
    """All steps in turn, until one fails.

    Args:
        flow: the one along which groups move.
    """
    watched = sys.stdout.isatty() and sys.stderr.isatty()
    notes = []
    for step in request.steps:
        if step is StepName.STOP:
            notes += pause_schedule(flow, request.mode)
        result = move.run(step)
        if watched:
            print(result.render(), file=sys.stderr, flush=True)
        if result.failed:
            break
    report = move.report
    return Answer(report.to_json() | {"notes": notes}, _text(report, notes, watched), report.exit_code)


def pause_schedule(flow: FlowSettings, mode: MoveMode) -> list[str]:
    """Keep the flow's schedule from starting runs, where the environment says how to reach it."""
    dag_id = flow.name.dag_id
    airflow = AirflowRest.from_environment()
    if airflow is None:
        return [f"If Airflow runs the flow, pause its DAG {dag_id} there; {URL} lets this command do it."]
    said = []
    try:
        if not airflow.is_paused(dag_id):
            airflow.set_paused(dag_id, True)
            said.append(f"Paused the DAG {dag_id}; it stays paused.")
        if mode is MoveMode.DISASTER:
            for run_id in airflow.active_runs(dag_id):
                airflow.end_run(dag_id, run_id, "ended by srm-control failover")
                said.append(f"Ended run {run_id} of {dag_id}.")
    except AirflowError as error:
        said.append(f"The DAG {dag_id} could not be paused: {error}")
    return said


def _text(report: MoveReport, notes: list[str], watched: bool) -> list[RenderableType]:
    text: list[RenderableType] = [] if watched else [step.render() for step in report.steps]
    if report.positions:
        rows = sorted(report.positions, key=lambda one: (one.translated, not one.reason))
        text += ["", table(_COLUMNS, [_row(row) for row in rows[:_ROWS]])]
        if len(rows) > _ROWS:
            text.append(f"... and {len(rows) - _ROWS} more; --output json has all")
    text.append("")
    text += notes
    broken = [step for step in report.steps if step.failed]
    if broken:
        text.append(f"Not finished: step {broken[0].step} failed. Fix the error and run the command again.")
    elif report.request.dry_run:
        text.append("Nothing was changed.")
    return text


_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "FROM", "AT", "BEFORE", "APPLIED", "AGE", "READ AGAIN", "REMARK")


def _row(one: PositionReport) -> list[object]:
    age = duration(one.age_ms) if one.age_ms else "now"
    return [
        one.group,
        one.topic,
        one.partition,
        one.from_topic,
        one.upstream,
        one.before,
        one.applied,
        age,
        one.read_again.text("position"),
        one.reason,
    ]


def _say(sentence: str) -> None:
    print(f"srm-control: {sentence}", file=sys.stderr)


@click.command("failover")
@move_options(MoveMode.CONTROLLED, MoveMode.CONTINUOUS, MoveMode.DISASTER)
@pass_invocation
def failover_command(invocation: Invocation, /, flow: str | None, **options: Any) -> Answer:
    """Move consumer groups to the target: they resume there where they are at the source, and skip nothing.

    \b
    controlled  producers and consumers of the source are stopped: the rest is copied, nothing is read twice
    continuous  only the consumers are stopped: producers and the flow keep running, nothing is read twice
    disaster    the source may be gone: positions are from checkpoints; what is read again is bounded and reported

    \b
      srm-control failover --flow "a->b" --mode disaster --dry-run
      srm-control failover --flow "a->b" --group billing

    Steps: check, stop (no run is active, forgotten ones are fenced), drain (last pass), translate, apply, verify,
    report. Failures are reported with the remedy; the command may be repeated at any time, also after it was killed.
    Groups with active consumers are not moved. Without --group: every group that the flow translates.

    \b
    Exit codes: 0 all groups were moved; 1 a step failed or a group could not be moved; 2 the configuration is invalid
    or a group is unknown; 3 a cluster cannot be reached; 4 a state topic is not trustworthy; 5 a run is active.
    """
    request = request_of(MoveKind.FAILOVER, options)
    settings = settings_now(invocation, flow, request.mode)
    copy = None if options["no_last_pass"] else last_pass(options["master"])
    return carry_out(Move(settings, request, copy), settings, request)


@click.command("failback")
@move_options(MoveMode.CONTROLLED, MoveMode.CONTINUOUS)
@pass_invocation
def failback_command(invocation: Invocation, /, flow: str | None, **options: Any) -> Answer:
    """Move consumer groups back to the source of the flow along which they were failed over.

    \b
      srm-control failback --flow "a->b" --dry-run      # from b back to a

    Positions on copies are translated back to the original topics, under every policy. What producers wrote at the
    backup in the meantime is copied by the flow in the other direction, if the configuration file has it, and positions
    on it are moved along. Records that the source had and never sent are read now.

    \b
    controlled  producers and consumers of the backup are stopped: the rest is copied, nothing is read twice
    continuous  only the consumers are stopped: producers and the flow back keep running

    Steps and exit codes are those of failover.
    """
    request = request_of(MoveKind.FAILBACK, options)
    settings = settings_now(invocation, flow, request.mode)
    name = FlowName(settings.name.target, settings.name.source)
    back = settings_now(invocation, str(name), request.mode) if name in invocation.configuration().flows else None
    copies = back is not None and back.enabled and not options["no_last_pass"]
    copy = last_pass(options["master"]) if copies else None
    return carry_out(failback(settings, back, request, copy), back or opposite(settings), request)


@click.command("switch-direction")
@move_options(MoveMode.CONTROLLED)
@pass_invocation
def switch_direction_command(invocation: Invocation, /, flow: str | None, **options: Any) -> Answer:
    """Move everything to the target and reverse the flow: the last step of a migration.

    \b
      srm-control switch-direction --flow "a->b" --dry-run
      srm-control switch-direction --flow "a->b"          # then producers and consumers start at b

    Stop producers and consumers at the source first. The rest is copied, the groups are moved as by failover, and the
    flow in the other direction is set to start after what was copied, so that nothing is copied back. If topics keep
    their names, the step turn requires a change of the configuration file ("a->b.enabled = false", "b->a.enabled =
    true"): edit it and run the command again. Then unpause the DAG of the other flow, or run it.

    \b
    Exit codes: 0 the flow is reversed; 1 a step failed; 2 the configuration is invalid or a group is unknown; 3 a
    cluster cannot be reached; 4 a state topic is not trustworthy; 5 a run is active.
    """
    request = request_of(MoveKind.SWITCH_DIRECTION, options)
    settings = settings_now(invocation, flow, request.mode)
    back = invocation.configuration().flow(FlowName(settings.name.target, settings.name.source))
    # Once the file is turned, the flow has copied what there was.
    copies = settings.enabled and not options["no_last_pass"]
    copy = last_pass(options["master"]) if copies else None
    return carry_out(SwitchMove(settings, back, request, copy), settings, request)
