"""Seeds in blocks, each in a process of its own, one block after the other or several at a time."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import selectors
import signal
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from tempfile import TemporaryFile

from tests.simulation.scenario import Outcome, Scenario
from tests.simulation.seeds import Seed
from tests.simulation.shrinking import shrunk

#: Seeds that a process plays. It collects no garbage, which takes a tenth of a seed's time, and ends with some 3 MB for
#: each of them.
_BLOCK = 40
#: Where nearly all goes wrong, a few plans of a block say why.
_MOST_PLANS = 3
_READ_BYTES = 1 << 16
#: CPU-seconds: a seed that takes longer goes round without letting time pass, and ends its process. Most take less than
#: one; to shrink one takes a few.
_LONGEST_SEED = 120.0


def play(seeds: range, hours: float | None, processes: int, commit: str) -> Iterator[Seed]:
    """Play seeds, several at a time, as they end. The first ones of each block that go wrong are shrunk to plans, and a
    seed that ends its process has gone wrong, too.

    Args:
        hours: begin no further seed after so long.
    """
    until = None if hours is None else time.monotonic() + hours * 3600
    size = min(_BLOCK, max(-(-len(seeds) // processes), 1))
    blocks = (seeds[first : first + size] for first in range(0, len(seeds), size))
    running: set[_Player] = set()
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(running) < processes and (until is None or time.monotonic() < until):
                    block = next(blocks, None)
                    if block is None:
                        break
                    running.add(_Player(block, commit, until, selector))
                if not running:
                    return
                for key, _ in selector.select():
                    player: _Player = key.data
                    yield from player.played()
                    if player.ended:
                        running.discard(player)
                        wrong, rest = player.end()
                        if wrong is not None:
                            yield wrong
                        if rest:
                            running.add(_Player(rest, commit, until, selector))
        finally:
            for player in running:
                player.kill()


def plan_of(outcome: Outcome) -> str:
    """The line for plans.py."""
    return f"Plan({outcome.seed}, {outcome.faults}, {outcome.wrong!r}),"


class _Player:
    """A process that plays a block, and says a line of JSON for each seed: a fork, which has all modules already."""

    def __init__(self, block: range, commit: str, until: float | None, selector: selectors.BaseSelector) -> None:
        self._left, self._commit, self._until = block, commit, until
        self._selector = selector
        self._said = b""
        self.ended = False
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - closed when the process has ended
        self._pipe, says = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            self._be(says)
        os.close(says)
        selector.register(self._pipe, selectors.EVENT_READ, self)

    def _be(self, says: int) -> None:
        """The fork, which never returns."""
        code = 1
        try:
            os.setsid()  # Ctrl-C is for the one who started it, who ends it
            os.dup2(self._errors.fileno(), 2)
            # What was imported stays, and what a seed leaves behind goes with the process.
            gc.freeze()
            gc.disable()
            faulthandler.register(signal.SIGVTALRM, chain=True)
            for seed in _in_turn(self._left, self._until, self._commit):
                os.write(says, f"{json.dumps(asdict(seed))}\n".encode())
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def played(self) -> Iterator[Seed]:
        """What was played since the last call."""
        more = os.read(self._pipe, _READ_BYTES)
        self.ended = not more
        *lines, self._said = (self._said + more).split(b"\n")
        for line in lines:
            self._left = self._left[1:]
            yield Seed(**json.loads(line))

    def end(self) -> tuple[Seed | None, range]:
        """Once it has ended: the seed that has ended it, if one has, and those that are still to be played."""
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._errors.seek(0)
        said = (self._errors.read().strip().splitlines() or ["it said nothing"])[-1]
        self._close()
        left = self._left
        if code == 0:
            over = self._until is not None and time.monotonic() > self._until
            if left and not over:
                raise SystemExit(f"a process did not play {left}: {said}")
            return None, range(0)
        if not left:
            raise SystemExit(f"a process ended with {code} after its seeds: {said}")
        wrong = f"the process ended with {code}: {said}"
        return Seed(left[0], self._commit, "", 0.0, [], 0, 0, wrong), left[1:]

    def kill(self) -> None:
        """Ends the process: no more seeds are wanted."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._close()

    def _close(self) -> None:
        self._selector.unregister(self._pipe)
        os.close(self._pipe)
        self._errors.close()


def _in_turn(seeds: range, until: float | None, commit: str) -> Iterator[Seed]:
    plans = _MOST_PLANS
    for seed in seeds:
        if until is not None and time.monotonic() > until:
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_SEED)
        outcome = Scenario(seed).play()
        plan = None
        if outcome.wrong is not None and plans > 0:
            plans, plan = plans - 1, plan_of(shrunk(outcome))
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
