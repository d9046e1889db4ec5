"""``srm-control check-copies``."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import counted


@click.command("check-copies")
@flow_option
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, flow: str | None) -> Answer:
    """Look for records in a flow's copies that the flow did not write.

    Holds the offset map against the copies' logs: whatever can be read between its runs, or behind its end, came from
    somebody else. Offsets of groups still translate right, but readers of the copy see those records, too, and the
    position of a lost state cannot be proved. Changes nothing; the flow may be running.

    \b
    Exit codes: 0 nothing found; 1 there are such records, or a copy could not be looked at; 2 the configuration is
    wrong; 3 a cluster cannot be reached or refuses.
    """
    from srm_common.usecases.offsets.foreign_records import check_copies

    checked = check_copies(invocation.flow_now(flow).flow)
    text: list[RenderableType] = []
    if checked.found:
        rows = [
            [one.topic, one.partition, one.first, one.last, one.records, _time(one.first_ms), _note(one.unmapped)]
            for one in checked.found
        ]
        text += [table(["COPY", "PARTITION", "FIRST", "LAST", "RECORDS", "SINCE", "NOTE"], rows), ""]
    text += checked.faults
    if checked.left:
        text.append(f"{counted(checked.left, 'older gap')} of the map were not read: there are too many.")
    if checked.unmapped:
        text.append(f"{counted(checked.unmapped, 'partition')} without a map yet: the flow has copied nothing there.")
    where = counted(checked.copies, "partition")
    affected = len({(one.topic, one.partition) for one in checked.found})
    text.append(
        f"{checked.flow}: records that the flow did not write are in {affected} of {where}"
        if affected
        else f"{checked.flow}: nothing but the flow's records in {where}"
    )
    return Answer(checked.to_json(), text, 1 if checked.found or checked.faults else 0)


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _note(unmapped: bool) -> str:
    return "may have been copied by MirrorMaker 2" if unmapped else ""
