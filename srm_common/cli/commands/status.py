"""``srm-control status``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.cli.watching import interval_option, watch
from srm_common.domain.amount import duration
from srm_common.domain.health.status_report import StatusReport


@click.command("status")
@click.option("--watch", "watching", is_flag=True, help="Look again and again, until Ctrl-C.")
@interval_option
@flow_option
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, flow: str | None, watching: bool, interval: float) -> Answer:
    """Print how far the flow has copied each partition, and what is wrong.

    POSITION is the next offset to copy, END the source's end now, LAG their distance in offsets (holes that compaction
    or transactions left count, too), BEHIND how old the first record is that is not copied, AGE how old the newest one
    is that is. The exit code is 1 when the last run or a partition failed, or no heartbeat of the source
    has come for four times the flow's period.
    """
    from srm_common.usecases.monitoring.status import status

    settings = invocation.flow(flow)

    def look() -> Answer:
        report = status(settings)
        return Answer(report.to_json(), status_text(report), 0 if report.healthy else 1)

    return watch(look, interval, invocation.output) if watching else look()


def status_text(report: StatusReport) -> list[RenderableType]:
    """A report for people."""
    text: list[RenderableType] = [report.headline()]
    advice = report.advice
    if advice is not None:
        text.append(advice.text if advice.command is None else f"{advice.text}\n    {advice.command}")
    if report.run is None:
        return text
    if report.source_fault is not None:
        text.append(f"The ends are unknown, or those that the run saw (then), because {report.source_fault}")
    rows = [
        [
            row.upstream_topic,
            row.partition,
            row.position,
            row.end if row.live or row.end is None else f"{row.end} (then)",
            row.lag,
            duration(row.behind_seconds * 1000) if row.lag and row.behind_seconds is not None else None,
            None if row.age_seconds is None else duration(row.age_seconds * 1000),
        ]
        for row in report.partitions
    ]
    if rows:
        text += ["", table(["TOPIC", "PARTITION", "POSITION", "END", "LAG", "BEHIND", "AGE"], rows), ""]
    if report.run.error is not None:
        text.append(f"Run: {report.run.error}")
    text += [row.trouble for row in report.partitions if row.error is not None]
    heartbeats = report.heartbeats and report.heartbeats.sentence()
    if heartbeats:
        text.append(heartbeats)
    text += [f"Note: {note}" for note in report.run.notes]
    return text
