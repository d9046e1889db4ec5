"""Virtual time, and processes that take turns in it: one at a time, in an order that the seed decides.

Nothing runs beside anything else. A process is a greenlet that goes on until it waits for its sockets or for a moment;
then the next event is due, or the next process. While all wait, time goes forward at once to the next event.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from array import array
from collections.abc import Callable, Mapping
from selectors import SelectorKey
from typing import Any

import greenlet

#: What the clocks show when a world begins: monotonic seconds, and Unix time.
BEGIN_SECONDS, BEGIN_UNIX_SECONDS = 1000.0, 1_700_000_000.0
#: So many turns of processes without any time passing are no work, but a loop that waits for nothing.
_MOST_TURNS = 200_000


class Crashed(BaseException):
    """Raised in a process that was killed, so that nothing of it goes on."""


class Hung(Exception):
    """The world stands still, or its time is over; the text says who waits."""


class Event:
    """Something that happens at a moment, unless it is cancelled before."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work

    def cancel(self) -> None:
        self._work = None

    def happen(self) -> bool:
        """Whether it was still wanted."""
        work, self._work = self._work, None
        if work is None:
            return False
        work()
        return True


class Process:
    """One process on a host of its own; its sockets are with the network."""

    def __init__(self, world: World, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.killed = False
        self.value: Any = None
        self.error: BaseException | None = None
        #: What it waits for besides the time: events of selectors, by the descriptors of its sockets.
        self.interest: Mapping[int, SelectorKey] = {}
        #: Called with the process at its end.
        self.ended: list[Callable[[Process], None]] = []
        self._world = world
        self._work = work
        self._greenlet = greenlet.greenlet(self._run, world.hub)
        self._waiting = self._stopped = self._woken = False
        self._timer: Event | None = None

    @property
    def alive(self) -> bool:
        return not (self._greenlet.dead or self.killed)

    def wait(self, until: float | None = None) -> None:
        """Called inside the process: return when it is woken, or at the moment ``until``. Raises Crashed."""
        if self.killed:
            raise Crashed
        self._waiting = True
        if until is not None:
            self._timer = self._world.at(until, self.wake)
        self._world.hub.switch()
        if self.killed:
            raise Crashed

    def wake(self) -> None:
        """Let it go on, if it waits."""
        if self._stopped:
            self._woken = True
        elif self._waiting:
            self._waiting = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._world.ready.append(self)

    def stop(self) -> None:
        """As SIGSTOP does: it gets no turn until :meth:`resume`."""
        self._stopped = True

    def resume(self) -> None:
        self._stopped = False
        if self._woken:
            self._woken = False
            self.wake()

    def turn(self) -> None:
        """From the hub: until it waits again."""
        if self.killed or self._greenlet.dead:
            return
        if self._stopped:
            self._woken = self._waiting = True
            return
        self._greenlet.switch()

    def kill(self) -> None:
        """From the hub, at once and for good. What it would do at its end reaches nobody."""
        if not self.alive:
            return
        self.killed = True
        if self._timer is not None:
            self._timer.cancel()
        before, self._world.current = self._world.current, self
        try:
            if self._greenlet:
                self._greenlet.throw(Crashed)
            else:
                self._end()
        finally:
            self._world.current = before

    def _run(self) -> None:
        try:
            self.value = self._work()
        except Crashed:
            pass
        except Exception as error:
            self.error = error
        self._end()

    def _end(self) -> None:
        for callback in self.ended:
            callback(self)


class World:
    """Everything of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = BEGIN_SECONDS
        self.hub = greenlet.getcurrent()
        self.ready: list[Process] = []
        self.processes: list[Process] = []
        self.current: Process | None = None
        self._events: list[tuple[float, int, Event]] = []
        self._number = 0
        self._order = self.chance("order")
        self._facts: list[tuple[object, ...]] = []
        #: When each was noted.
        self._times = array("d")

    def chance(self, name: str) -> random.Random:
        """A stream of numbers of its own: what one part draws changes nothing of the others."""
        return random.Random(f"{self.seed}/{name}")

    def note(self, *facts: object) -> None:
        """Make something that happened part of :attr:`digest`."""
        self._facts.append(facts)
        self._times.append(self.now)

    @property
    def digest(self) -> str:
        """Equal for two runs of a seed in which the same happened."""
        return hashlib.sha256(self._times.tobytes() + repr(self._facts).encode()).hexdigest()[:16]

    def unix_seconds(self) -> float:
        return BEGIN_UNIX_SECONDS + self.now - BEGIN_SECONDS

    def at(self, when: float, work: Callable[[], object]) -> Event:
        event = Event(work)
        self._number += 1
        heapq.heappush(self._events, (when if when > self.now else self.now, self._number, event))
        return event

    def after(self, seconds: float, work: Callable[[], object]) -> Event:
        return self.at(self.now + seconds, work)

    def spawn(self, name: str, work: Callable[[], Any]) -> Process:
        process = Process(self, name, work)
        self.processes.append(process)
        self.ready.append(process)
        return process

    def me(self) -> Process:
        """The process that runs now."""
        if self.current is None:
            raise AssertionError("no process runs now")
        return self.current

    def sleep(self, seconds: float) -> None:
        """Inside a process."""
        until = self.now + seconds
        while self.now < until:
            self.me().wait(until)

    def run(self, done: Callable[[], bool], until: float) -> None:
        """Let things happen until ``done``.

        Raises:
            Hung: nothing is left that could happen, the moment ``until`` has come, or a process does not let time pass.
        """
        turns = 0
        while not done():
            if self.ready:
                turns += 1
                if turns > _MOST_TURNS:
                    raise Hung(f"time does not pass: {self.ready[0].name} goes on without end")
                process = self.ready.pop(int(self._order.random() * len(self.ready)))
                self.current = process
                try:
                    process.turn()
                finally:
                    self.current = None
                continue
            if not self._events:
                raise Hung(f"nothing more happens; {self._waiting()}")
            when, _, event = heapq.heappop(self._events)
            if when > until:
                raise Hung(f"not done {until - BEGIN_SECONDS:.0f} s after the begin; {self._waiting()}")
            if when > self.now:
                self.now, turns = when, 0
            event.happen()

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            process.kill()
        self._events.clear()

    def _waiting(self) -> str:
        return "waiting: " + (", ".join(process.name for process in self.processes if process.alive) or "no process")
