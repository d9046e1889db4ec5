"""``python -m demo [--seconds N]`` runs the demo until Ctrl-C or for N seconds; ``python -m demo stop`` ends it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console
from rich.live import Live

from demo import stage
from demo.ending import signals_as_interrupt
from demo.lag import LagReader
from demo.options import interval, seconds
from demo.view import LagHistory, line, screen
from srm_common.errors import SrmError

LOOK_SECONDS = 1.0
LINE_SECONDS = 5.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "stop"], default="run")
    parser.add_argument("--seconds", type=seconds, help="end after this long")
    parser.add_argument("--interval", type=interval, default=30, help="seconds between two runs of the flow")
    options = parser.parse_args(arguments)
    try:
        if options.command == "stop":
            print("the demo has ended" if stage.stop() else "no demo is running")
            return 0
        with signals_as_interrupt():
            _run(options.interval, options.seconds)
    except KeyboardInterrupt:
        print("the demo has ended")
    except SrmError as error:
        print(f"srm: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(interval_seconds: int, seconds: float | None) -> None:
    console = Console()
    began = time.monotonic()
    console.print("starting two Kafka clusters and Airflow (about half a minute) ...")
    with stage.running(interval_seconds) as running:
        url = running.airflow.url
        console.print(f"ready after {time.monotonic() - began:.0f} s")
        console.print(f"open {url} and log in as {stage.LOGIN[0]} with password {stage.LOGIN[1]}", highlight=False)
        console.print(f"the state of all flows, and what needs attention: {running.replications}", highlight=False)
        end = None if seconds is None else time.monotonic() + seconds
        if console.is_terminal:
            _watch(running, console, end)
        else:
            _report(running, end)


def _watch(running: stage.Stage, console: Console, end: float | None) -> None:
    reader, history = LagReader(running.flow), LagHistory()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while end is None or time.monotonic() < end:
            try:
                rows = reader.read()
            except SrmError as error:
                # A leader that moves or a transaction that stays open does not end the demo: the next look may succeed.
                live.update(f"cannot query the clusters at the moment: {error}")
            else:
                history.add(rows)
                live.update(screen(rows, history, _run_states(running), running.replications, console.width))
            time.sleep(LOOK_SECONDS)


def _report(running: stage.Stage, end: float | None) -> None:
    reader = LagReader(running.flow)
    while end is None or time.monotonic() < end:
        try:
            print(line(reader.read(), _run_states(running)), flush=True)
        except SrmError as error:
            print(f"cannot query the clusters at the moment: {error}", flush=True)
        time.sleep(LINE_SECONDS)


def _run_states(running: stage.Stage) -> list[str]:
    """Newest first; none while the API server is too busy to respond."""
    with suppress(SrmError, OSError):
        return [str(run["state"]) for run in running.airflow.runs(stage.DAG_ID, limit=20)]
    return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
