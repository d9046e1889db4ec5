"""Seeds, one after the other in this process, or in blocks in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Event

from tests.simulation.scenario import Outcome, Scenario
from tests.simulation.seeds import Seed
from tests.simulation.shrinking import shrunk

#: Seeds that a process plays: it takes a second to start, and what one seed leaves behind burdens few others.
_BLOCK = 40
#: Where nearly all goes wrong, a few plans say why.
_MOST_PLANS = 3


def play(seeds: range, hours: float | None, processes: int, commit: str, *, plans: bool) -> Iterator[Seed]:
    """Play seeds, several at a time, as they end.

    Args:
        hours: begin no further seed after so long.
        plans: shrink the first ones that go wrong.
    """
    until = None if hours is None else time.monotonic() + hours * 3600
    if processes > 1:
        yield from _side_by_side(seeds, until, processes, commit)
        return
    left = _MOST_PLANS if plans else 0
    for seed in seeds:
        if until is not None and time.monotonic() > until:
            return
        outcome = Scenario(seed).play()
        plan = None
        if outcome.wrong is not None and left > 0:
            left, plan = left - 1, plan_of(shrunk(outcome))
        yield Seed(
            seed,
            commit,
            outcome.digest,
            outcome.seconds,
            list(outcome.struck),
            outcome.runs,
            outcome.records,
            outcome.wrong,
            plan,
        )


def plan_of(outcome: Outcome) -> str:
    """The line for plans.py."""
    return f"Plan({outcome.seed}, {outcome.faults}, {outcome.wrong!r}),"


def play_block(seeds: range, commit: str) -> int:
    """What a process of its own does: a line of JSON for each seed."""
    for one in play(seeds, None, 1, commit, plans=True):
        print(json.dumps(asdict(one)), flush=True)
    return 0


def _side_by_side(seeds: range, until: float | None, processes: int, commit: str) -> Iterator[Seed]:
    size = min(_BLOCK, -(-len(seeds) // processes))
    blocks = (seeds[first : first + size] for first in range(0, len(seeds), size))
    others = _Others(commit)
    running: set[Future[None]] = set()
    with ThreadPoolExecutor(processes) as pool:
        try:
            while True:
                while len(running) < processes and (until is None or time.monotonic() < until):
                    block = next(blocks, None)
                    if block is None:
                        break
                    running.add(pool.submit(others.play, block))
                yield from others.played()
                if not running:
                    return
                done, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            others.end()


class _Others:
    """Processes that play blocks, each started by a thread that waits for it."""

    def __init__(self, commit: str) -> None:
        self._commit = commit
        self._played: SimpleQueue[Seed] = SimpleQueue()
        self._ended = Event()

    def played(self) -> Iterator[Seed]:
        """What was played since the last call."""
        while not self._played.empty():
            yield self._played.get()

    def end(self) -> None:
        """Nobody wants more: each process ends with its seed."""
        self._ended.set()

    def play(self, block: range) -> None:
        """A seed that ends its process has gone wrong, too; another process goes on behind it."""
        while block and not self._ended.is_set():
            left, code, said = self._start(block)
            if self._ended.is_set() or (code == 0 and not left):
                return
            if code == 0 or not left:
                raise SystemExit(f"a process for the seeds {block} ended with {code}, {len(left)} are left: {said}")
            wrong = f"the process ended with {code}: {said}"
            self._played.put(Seed(left[0], self._commit, "", 0.0, [], 0, 0, wrong))
            block = left[1:]

    def _start(self, block: range) -> tuple[range, int, str]:
        """The seeds that it did not get to, its exit code, and its last words."""
        command = [sys.executable, "-m", "tests.simulation", "--block", f"{block[0]}:{block[-1] + 1}"]
        with (
            TemporaryFile("w+") as errors,
            subprocess.Popen(
                [*command, "--commit", self._commit],
                env={**os.environ, "PYTHONHASHSEED": "0"},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C is for us, who end it.
                start_new_session=True,
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                if self._ended.is_set():
                    process.kill()
                    break
                self._played.put(Seed(**json.loads(line)))
                block = block[1:]
            code = process.wait()
            errors.seek(0)
            return block, code, (errors.read().strip().splitlines() or ["it said nothing"])[-1]
