"""``srm-control heartbeats``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import duration, latency
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport


@click.command("heartbeats")
@flow_option
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, flow: str | None) -> Answer:
    """Print the clusters whose heartbeats the flow has brought, how old the newest are, and how long they took.

    AGE says up to when everything written upstream has arrived, as far as time goes; LATENCY how long the newest
    heartbeat was on its way, BY HOP how long for each flow on it (the clusters between are asked, as far as the
    configuration has them). Times are by the clocks of who wrote and who copied. The exit code is 1 when heartbeats of
    the source are due and stay away.
    """
    from srm_common.usecases.monitoring.heartbeats import heartbeats_by_hop

    report = heartbeats_by_hop(invocation.flow(flow))
    return Answer(report.to_json(), heartbeats_text(report), 1 if report.silence is not None else 0)


def heartbeats_text(report: HeartbeatReport) -> list[RenderableType]:
    """A report for people."""
    text: list[RenderableType] = []
    if report.copied:
        columns = ["CLUSTER", "HOPS", "TOPIC", "AGE", "LATENCY", "BY HOP"]
        text.append(table(columns, [_row(one, report.now_ms) for one in report.copied]))
        text.append("")
    if sentence := report.sentence():
        text.append(sentence)
    elif not report.copied:
        text.append(f"{report.flow} has brought no heartbeats, and is not configured to.")
    return text


def _row(one: CopiedHeartbeat, now_ms: int) -> list[object]:
    if one.beat is None:
        return [one.origin, one.hops, one.topic, None, None, None]
    taken = None if one.latency_ms is None else latency(one.latency_ms)
    hops = ", ".join(map(str, one.by_hop))
    return [one.origin, one.hops, one.topic, duration(now_ms - one.beat.timestamp_ms), taken, hops]
