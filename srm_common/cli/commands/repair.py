"""``srm-control repair``, ``rebind`` and ``check-copies``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import counted, moment
from srm_common.domain.flow import FlowSettings
from srm_common.errors import ConfigError


@click.command("repair")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print what would be written, and change nothing.")
@click.option("--plan", is_flag=True, help="Print how to repair copies in which 'verify' found differences.")
@config_option
@output_option
@pass_invocation
def repair_command(invocation: Invocation, flow: str | None, dry_run: bool, plan: bool) -> Answer:
    """Restore lost source offsets, as proved by the offset map and the copies.

    For a flow, or single partitions, that refuse to start because the mm2-offsets topic has lost records, or has older
    ones. The flow is fenced first; other positions are left alone.
    """
    from srm_common.usecases.offsets.repair_offsets import repair_offsets

    settings = invocation.flow(flow)
    if plan:
        return _planned(settings)
    actions = repair_offsets(settings, dry_run=dry_run)
    unproved = sum(action.next_offset is None for action in actions)
    done = "would be written" if dry_run else "written"
    text: list[RenderableType] = [
        f"{settings.name}: {len(actions) - unproved} source offsets {done}, {unproved} cannot be proved"
    ]
    if actions:
        rows = [[action.topic, action.partition, action.next_offset, action.proof] for action in actions]
        text += ["", table(["TOPIC", "PARTITION", "NEXT OFFSET", "PROOF"], rows)]
    if unproved:
        text.append(
            "The next run does not copy partitions without a proof until their offsets are set with srm-control "
            "source-offsets set; those whose map cannot be read it copies from their start again, after the records "
            "that are there: exclude these topics first, or delete their copies."
        )
    if not actions:
        text.append("Nothing to do: every partition of the map has a position that is as new.")
    data = {
        "flow": str(settings.name),
        "dry_run": dry_run,
        "actions": [action.to_json() for action in actions],
    }
    return Answer(data, text, 1 if unproved else 0)


def _planned(settings: FlowSettings) -> Answer:
    """What would be copied again, and where."""
    from srm_common.usecases.verification.kept_verification import planned_repair

    steps = planned_repair(settings)
    text: list[RenderableType] = []
    if steps:
        rows = [[step.copy, step.partition, str(step.kind), step.first, step.effect] for step in steps]
        text += [table(["COPY", "PARTITION", "FOUND", "COPY FROM", "EFFECT"], rows), ""]
        text += [step.command for step in steps if step.command is not None]
    else:
        text.append(f"{settings.name}: no verification has found a difference; srm-control verify looks for them")
    return Answer({"flow": str(settings.name), "steps": [step.to_json() for step in steps]}, text, 1 if steps else 0)


@click.command("rebind")
@click.option("--alias", "-a", required=True, metavar="ALIAS", help="The cluster alias, as in 'clusters'.")
@click.option("--dry-run", is_flag=True, help="Print what would be recorded, and change nothing.")
@config_option
@output_option
@pass_invocation
def rebind_command(invocation: Invocation, alias: str, dry_run: bool) -> Answer:
    """Bind an alias to the Kafka cluster that its addresses lead to now.

    Flows stop when an alias leads to a different cluster than before, since the data and progress of two clusters would
    be mixed. Use this if the cluster was replaced on purpose. Progress stays as it is: topics that the new cluster has
    under the same names are detected as re-created, and on.data.loss decides about them.
    """
    from srm_common.usecases.topics.rebind import rebind

    configuration = invocation.configuration()
    if alias not in configuration.layers.aliases:
        known = ", ".join(configuration.layers.aliases)
        raise ConfigError(f"'{alias}' is not one of the clusters ({known})", file=str(configuration.path))
    flows = next((flow.graph for flow in configuration.flows.values()), ())
    changes = rebind(flows, alias, dry_run=dry_run)
    done = "would be bound" if dry_run else "is bound"
    text: str | list[RenderableType] = (
        [
            f"'{alias}' {done} to the Kafka cluster {changes[0].after}.",
            "",
            table(
                ["RECORDED ON", "BEFORE", "AFTER"], [[change.place, change.before, change.after] for change in changes]
            ),
        ]
        if changes
        else f"Nothing to do: '{alias}' leads to the cluster that is recorded for it."
    )
    return Answer({"alias": alias, "dry_run": dry_run, "changes": [change.to_json() for change in changes]}, text)


@click.command("check-copies")
@flow_option
@config_option
@output_option
@pass_invocation
def check_copies_command(invocation: Invocation, flow: str | None) -> Answer:
    """Look for records in a flow's copies that the flow did not write.

    Checks the copies' logs against the offset map: any record between its segments, or after its end, is from another
    writer. Group offsets are still translated correctly, but consumers of the copy read those records, too, and
    positions cannot be proved if state is lost. Changes nothing; the flow may be running.

    \b
    Exit codes: 0 nothing found; 1 there are such records, or a copy could not be checked; 2 the configuration is
    invalid; 3 a cluster cannot be reached or denies access.
    """
    from srm_common.usecases.offsets.foreign_records import check_copies

    checked = check_copies(invocation.flow_now(flow).flow)
    text: list[RenderableType] = []
    if checked.found:
        rows = [
            [
                records.topic,
                records.partition,
                records.first,
                records.last,
                records.records,
                None if records.first_ms is None else moment(records.first_ms),
                _note(records.unmapped),
            ]
            for records in checked.found
        ]
        text += [table(["COPY", "PARTITION", "FIRST", "LAST", "RECORDS", "SINCE", "NOTE"], rows), ""]
    text += checked.faults
    if checked.left:
        text.append(f"{counted(checked.left, 'older gap')} of the map were not read: there are too many.")
    if checked.unmapped:
        text.append(f"{counted(checked.unmapped, 'partition')} without a map yet: the flow has copied nothing there.")
    where = counted(checked.copies, "partition")
    affected = len({(records.topic, records.partition) for records in checked.found})
    text.append(
        f"{checked.flow}: records that the flow did not write are in {affected} of {where}"
        if affected
        else f"{checked.flow}: nothing but the flow's records in {where}"
    )
    return Answer(checked.to_json(), text, 1 if checked.found or checked.faults else 0)


def _note(unmapped: bool) -> str:
    return "may have been copied by MirrorMaker 2" if unmapped else ""
