"""``python -m demo.failover``: a cluster dies in the middle of its work, its consumers move to the other one, and back.

A guided tour through the DAGs ``srm.failover`` and ``srm.failback``, to be watched in Airflow. Nothing is faked: real
clusters, one of them killed, live producers and consumers, and every order is counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from demo import stage
from demo.chapters import Chapters
from demo.ending import signals_as_interrupt
from demo.move_run import MoveRun
from demo.options import seconds
from demo.shop import GROUP, TOPIC, Billing, Shop, wait_until_read
from srm_common.errors import SrmError
from srm_common.testing.airflow_client import wait_until

#: The flow back exists from the beginning, and flows soon notice that a cluster is dead.
KEYS = """
# For the demo of a failover.
east->west.topics = orders
west->east.enabled = true
west->east.topics = orders
groups = billing
emit.checkpoints.interval.seconds = 0
admin.timeout.ms = 10000
task.retries = 1
task.retry.delay.seconds = 2
"""
LIMIT_SECONDS = 900.0
WORK_SECONDS = 10.0
PATIENCE_SECONDS = 60.0


class Story:
    """Tells and does, one chapter after the other. Raises DemoError when something does not go as it should."""

    def __init__(self, running: stage.Stage, console: Console, patience_seconds: float) -> None:
        self._running = running
        self._airflow = running.airflow
        told = Chapters(console)
        self._chapter, self._say = told.chapter, told.say
        self._patience_seconds = patience_seconds
        self._read: Counter[str] = Counter()
        self._written: set[str] = set()

    def tell(self) -> None:
        east, west = self._running.east, self._running.west
        self._say(f"open {self._airflow.url} and log in as {stage.LOGIN[0]} with password {stage.LOGIN[1]}")
        for cluster in (east, west):
            cluster.create_topic(TOPIC, partitions=2)

        self._chapter("A shop writes orders at east, billing reads them there, srm.east.west copies them to west.")
        with Shop(east.bootstrap_servers, "east") as shop, Billing(east.bootstrap_servers, self._read):
            self._wait_for_copies("srm.east.west", 2)
            time.sleep(WORK_SECONDS)
            self._chapter("East dies: kill -9, in the middle of all that.")
            east.kill(None)
        self._written |= shop.written
        self._say(f"{len(shop.written)} orders were acknowledged at east, billing had read {len(self._read)} of them")

        self._chapter("srm.failover determines where billing resumes at west.")
        self._move("srm.failover", "disaster")

        self._chapter("Billing resumes at west, and so does the shop: its orders go to west's own topic.")
        with Shop(west.bootstrap_servers, "west") as shop, Billing(west.bootstrap_servers, self._read):
            time.sleep(WORK_SECONDS)
            self._chapter("East returns. srm.west.east copies to it what was ordered at west.")
            east.restart(None)
            self._wait_for_copies("srm.west.east", 1)
            self._say("shop and billing at west stop, to move back")
        self._written |= shop.written

        self._chapter("srm.failback moves billing back to east, and lets both flows copy again.")
        self._move("srm.failback", "controlled")

        self._chapter("Billing reads at east again.")
        with Billing(east.bootstrap_servers, self._read):
            complete = wait_until_read(self._read, self._written, 120)
        self._sum_up(complete)

    # ---- inside

    def _move(self, dag_id: str, mode: str) -> None:
        run = MoveRun(self._airflow, dag_id, {"flow": stage.FLOW, "mode": mode, "groups": [GROUP]})
        self._say(f"watch it: {run.url}")

        def asked() -> None:
            for sentence in run.sentences("check"):
                self._say(f"  {sentence}")
            self._say(f"approve it: {run.approval_url}")
            if self._patience_seconds:
                self._say(f"(the demo presses the button itself after {self._patience_seconds:.0f} s)")

        def told(task_id: str, state: str) -> None:
            self._say(f"  {task_id:<10} {state}")
            if task_id not in ("check", "report"):
                for sentence in run.sentences(task_id):
                    self._say(f"  {'':<10} {sentence}")

        state = run.follow(told, asked, self._patience_seconds, LIMIT_SECONDS)
        if state != "success":
            raise stage.DemoError(f"{dag_id} ended as {state}; its tasks say why: {run.url}")
        for sentence in run.sentences("report"):
            self._say(f"  {sentence}")

    def _wait_for_copies(self, dag_id: str, count: int) -> None:
        """Until ``count`` more runs of a flow have succeeded."""
        page = f"{self._airflow.url}/dags/{dag_id}/runs"
        runs = "a run" if count == 1 else f"{count} runs"
        self._say(f"waiting for {runs} of {dag_id} to succeed: {page}")
        before = {run["dag_run_id"] for run in self._airflow.runs(dag_id)}

        def enough() -> bool:
            good = {run["dag_run_id"] for run in self._airflow.runs(dag_id) if run["state"] == "success"}
            return len(good - before) >= count

        wait_until(enough, LIMIT_SECONDS, f"{runs} of {dag_id} to succeed; see {page}", every_seconds=1.0)

    def _sum_up(self, complete: bool) -> None:
        missing = len(self._written - self._read.keys())
        again = sum(count - 1 for count in self._read.values())
        self._chapter(
            f"{len(self._written)} orders were acknowledged, at either cluster; billing has read "
            f"{len(self._written) - missing} of them, {again} a second time."
        )
        self._say(
            "Read twice were those that srm.failover had announced, and those that billing had read but not yet "
            "committed when east died."
        )
        if not complete:
            raise stage.DemoError(f"{missing} orders were not read; see the logs in {stage.FOLDER}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.failover", description=__doc__)
    parser.add_argument(
        "--patience",
        type=seconds,
        help="how long a person has to approve, in seconds, before the demo does so itself  [60; 0 in a pipe]",
    )
    options = parser.parse_args(arguments)
    console = Console()
    patience = options.patience
    if patience is None:
        patience = PATIENCE_SECONDS if console.is_terminal else 0.0
    try:
        with signals_as_interrupt():
            console.print("starting two Kafka clusters and Airflow (about half a minute) ...")
            with stage.running(10, more_keys=KEYS, alive=False) as running:
                Story(running, console, patience).tell()
                if console.is_terminal:
                    console.print("\nLook around as long as you like; Ctrl-C ends the demo.")
                    while True:
                        time.sleep(1)
    except KeyboardInterrupt:
        print("the demo has ended")
    except SrmError as error:
        print(f"srm: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
