"""``srm-control status``, ``top`` and ``heartbeats``."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from srm_common.airflow_rest import AirflowRest
from srm_common.cli.invocation import Invocation, Seconds, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, Format, console, table
from srm_common.domain.amount import duration, latency
from srm_common.domain.health.alarms import behind
from srm_common.domain.health.health import FlowLine, HealthState, Severity
from srm_common.domain.health.status_report import StatusReport
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport
from srm_common.errors import AirflowError, ConfigError, SrmError

if TYPE_CHECKING:
    from srm_common.usecases.monitoring.list_flows import Schedule


interval_option = click.option(
    "--interval",
    type=Seconds(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait between two refreshes.",
)


def watch(look: Callable[[], Answer], seconds: float, output: Format) -> Answer:
    """Show the answer of ``look``, refreshed every ``seconds`` until Ctrl-C; the last one is left on the screen.

    An error of one look is shown, and the next one tries again.

    Raises:
        ConfigError: there is no terminal, or the answer is not for people.
    """
    screen = console()
    if output != "table" or not screen.is_terminal:
        raise ConfigError("--watch needs a terminal and --output table; omit it, and run the command repeatedly")
    answer = Answer(None, "nothing was seen yet")
    with Live(console=screen, screen=True, auto_refresh=False) as live, _noticing_interrupts() as interrupted:
        try:
            while not interrupted.is_set():
                try:
                    answer = look()
                    live.update(_picture(answer.text), refresh=True)
                except SrmError as error:
                    live.update(_picture([f"{error}", "", *_parts(answer.text)]), refresh=True)
                interrupted.wait(seconds)
        except KeyboardInterrupt:
            pass
    return answer


@contextmanager
def _noticing_interrupts() -> Iterator[threading.Event]:
    """Set by Ctrl-C, which still raises KeyboardInterrupt: one raised within a callback of a library is lost."""
    interrupted = threading.Event()

    def notice(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, notice)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _parts(text: RenderableType | Sequence[RenderableType]) -> Sequence[RenderableType]:
    return [text] if isinstance(text, str) or not isinstance(text, Sequence) else text


def _picture(text: RenderableType | Sequence[RenderableType]) -> Group:
    # str would be read as markup: topic names and expressions may hold brackets.
    return Group(*(Text(part) if isinstance(part, str) else part for part in _parts(text)))


@click.command("status")
@click.option("--watch", "watching", is_flag=True, help="Refresh repeatedly, until Ctrl-C.")
@interval_option
@flow_option
@config_option
@output_option
@pass_invocation
def status_command(invocation: Invocation, flow: str | None, watching: bool, interval: float) -> Answer:
    """Print how far the flow has copied each partition, and what is wrong.

    POSITION is the next offset to copy, END the source's end offset now, LAG the difference (including compacted
    records and transaction markers), BEHIND the age of the oldest record that is not copied, AGE that of the newest
    copied record. The exit code is 1 if the last run or a partition failed, or no heartbeat of the source has arrived
    for four times the flow's interval.
    """
    from srm_common.usecases.monitoring.list_flows import status

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
        text.append(f"End offsets are unknown, or those of the run (then), because {report.source_fault}")
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


_STYLES = {
    HealthState.LOST_DATA: "bold red",
    HealthState.FAILING: "bold red",
    HealthState.STALLED: "bold red",
    HealthState.UNKNOWN: "yellow",
    HealthState.NOT_RUN: "cyan",
    HealthState.CATCHING_UP: "yellow",
    HealthState.RUNNING: "green",
    HealthState.HEARTBEAT_ONLY: "cyan",
    HealthState.IDLE: "dim",
    HealthState.PAUSED: "dim",
}
#: States that say what to do in the list, although nothing is wrong.
_NOTHING_COPIED = (HealthState.NOT_RUN, HealthState.HEARTBEAT_ONLY)
_FIGURES = ("FOR", "LAG", "BEHIND", "RATE", "LATENCY", "P99", "AGE")
#: How long to wait for the current lag from the clusters when it is printed once; otherwise the last report's is used.
_LAG_SECONDS = 5.0
_AIRFLOW_SECONDS = 5.0


@click.command("top")
@click.option("--once", is_flag=True, help="Print it once and exit, as without a terminal.")
@click.option("--live", is_flag=True, help="Query the clusters for every flow, even if it is in the history.")
@interval_option
@config_option
@output_option
@pass_invocation
def top_command(invocation: Invocation, once: bool, live: bool, interval: float) -> Answer:
    """Show the health of all flows, worst first, refreshed every two seconds.

    FOR is how long a flow has been in its state. LAG is in source offsets, BEHIND the age of the oldest record that is
    not copied, AGE how old both values are: they are queried from the clusters, at most every 15 seconds. RATE and
    LATENCY are averages over the last 15 minutes, P99 is the latency that 99 % of the records did not exceed (p50 and
    p95: in JSON); they come from the history that runs write, and flows without history are queried from their
    clusters. With SRM_AIRFLOW_URL paused flows are distinguished from stalled ones. The exit code of --once is 1 if a
    flow is failing, stalled or has lost data, otherwise 3 if the state of one is unknown or the history cannot be read.
    """
    from srm_common.store.location import open_store
    from srm_common.usecases.monitoring.lag_watch import LagWatch
    from srm_common.usecases.monitoring.list_flows import known_flows, list_flows

    configuration = invocation.configuration()
    store = open_store(configuration)
    airflow = AirflowRest.from_environment(timeout_seconds=_AIRFLOW_SECONDS)
    watched = not once and invocation.output == "table" and sys.stdout.isatty()
    lag = LagWatch()

    def look() -> Answer:
        configuration = invocation.configuration()
        flows = [] if live else known_flows(configuration, store)
        lags = lag.of(flows) if watched else lag.wait_for(flows, _LAG_SECONDS)
        now_ms = int(time.time() * 1000)
        lines, fault = list_flows(configuration, store, _schedule(airflow), now_ms, live=live, lags=lags)
        return Answer(
            {"now_ms": now_ms, "flows": [line.to_json() for line in lines], "history_fault": fault},
            list(_text(lines, fault, now_ms)),
            _exit_code(lines, fault),
        )

    try:
        return watch(look, interval, invocation.output) if watched else look()
    finally:
        lag.close()
        store.close()


def _exit_code(lines: Sequence[FlowLine], fault: str | None) -> int:
    if any(line.urgent for line in lines):
        return 1
    return 3 if fault is not None or any(line.unknown for line in lines) else 0


def _schedule(airflow: AirflowRest | None) -> Schedule:
    from srm_common.rest.serving.remote_scheduler import RemoteScheduler
    from srm_common.usecases.monitoring.list_flows import Schedule

    if airflow is None:
        return Schedule()
    try:
        return Schedule({flow.flow: flow for flow in RemoteScheduler(airflow).flows()})
    except AirflowError as error:
        return Schedule(fault=str(error))


def _text(lines: Sequence[FlowLine], fault: str | None, now_ms: int) -> Iterator[RenderableType]:
    if fault is not None:
        yield f"The history cannot be read: {fault}"
    if not lines:
        yield "no flow is enabled"
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("FLOW", "STATE", "FOR", "LAG", "BEHIND", "RATE", "LATENCY", "P99", "PARTITIONS", "AGE", "CAUSE"):
        table.add_column(name, justify="right" if name in _FIGURES else "left", no_wrap=name != "CAUSE")
    for line in lines:
        style = _STYLES[line.health.state]
        table.add_row(
            Text(line.flow),
            Text(line.health.state.value.replace("_", " "), style),
            _cell(None if line.health.since_ms is None else duration(now_ms - line.health.since_ms)),
            _cell(None if line.lag is None else line.lag.short()),
            _cell(None if line.behind_ms is None or not line.lag or not line.lag.least else duration(line.behind_ms)),
            _cell(None if line.byte_rate is None else f"{line.byte_rate / 1e6:,.1f} MB/s"),
            _latency(line.latency_ms),
            _latency(line.latency_percentiles_ms.get("p99")),
            _cell(_partitions(line)),
            _cell(None if line.lag_ms is None else duration(now_ms - line.lag_ms)),
            Text(line.health.cause, style if line.urgent else ""),
        )
    yield table
    faults = [
        f"{line.flow}: its current lag is unknown: {line.lag_fault}" for line in lines if line.lag_fault is not None
    ]
    yield from ["", *faults] if faults else []
    unsure = [(line.flow, line.lag) for line in lines if line.lag is not None and line.lag.unknown]
    yield from ["", *(f"{flow}: {behind(lag)}" for flow, lag in unsure)] if unsure else []
    for line in lines:
        help_ = line.health.help
        if line.health.state in _NOTHING_COPIED and help_ is not None:
            yield ""
            yield Text(f"{line.flow}: {help_.text}")
            yield Text(f"    {help_.command}", "dim")
    alarms = [alarm for line in lines for alarm in line.alarms]
    if alarms:
        yield ""
    for alarm in alarms:
        style = "bold red" if alarm.severity is Severity.CRITICAL else "yellow"
        yield Text.assemble((f"{alarm.severity.value}: ", style), alarm.text)
        if alarm.help is not None and alarm.help.command is not None:
            yield Text(f"    {alarm.help.command}", "dim")


def _latency(ms: float | None) -> Text:
    return _cell(None if ms is None else latency(round(ms)))


def _cell(text: str | None) -> Text:
    return Text("-" if text is None else text)


def _partitions(line: FlowLine) -> str | None:
    if line.partitions is None:
        return None
    return f"{line.partitions:,}" + (f" ({line.failed_partitions:,} failed)" if line.failed_partitions else "")


@click.command("heartbeats")
@flow_option
@config_option
@output_option
@pass_invocation
def heartbeats_command(invocation: Invocation, flow: str | None) -> Answer:
    """Print the clusters whose heartbeats the flow has copied, the age of the newest and their latency.

    Everything written upstream before AGE has arrived; LATENCY is how long the newest heartbeat took, BY HOP how long
    for each flow on the way (the clusters in between are queried if the configuration has them). Times are by the
    clocks of the hosts that wrote and that copied. The exit code is 1 if heartbeats of the source are overdue.
    """
    from srm_common.usecases.flows.flow_clusters import FlowClusters
    from srm_common.usecases.monitoring.heartbeats import heartbeats_by_hop
    from srm_common.usecases.runs.run_journal import last_run

    with FlowClusters(invocation.flow(flow)) as clusters:
        report = heartbeats_by_hop(clusters, last_run(clusters))
    return Answer(report.to_json(), heartbeats_text(report), 1 if report.silence is not None else 0)


def heartbeats_text(report: HeartbeatReport) -> list[RenderableType]:
    """A report for people."""
    text: list[RenderableType] = []
    if report.copied:
        columns = ["CLUSTER", "HOPS", "TOPIC", "AGE", "LATENCY", "BY HOP"]
        text.append(table(columns, [_row(heartbeat, report.now_ms) for heartbeat in report.copied]))
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
