"""Two runs and one coordinator in every order: what is lost, late or forgotten never leaves a flow with two owners.

The runs are :class:`Ownership` itself; the coordinator is a model of Kafka's (KIP-360,
``TransactionMetadata.prepareIncrementProducerEpoch``). Every request may be carried out and answered, carried out
without an answer, lost, or carried out any time after its sender has given it up; the coordinator may move at any
time, which makes it forget the epoch before.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import FlowOwnedElsewhere
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.replication.driver.ownership import Ownership
from tests.examples import examples

ANSWERED, UNANSWERED, LOST, LATE = range(4)


@dataclass
class Coordinator:
    """What it stores about one transactional id without transactions."""

    epoch: int = -1
    before: int = -1

    def carry_out(self, expected: int) -> Any:
        """Answer an InitProducerId; ``expected`` is -1 for one without an epoch."""
        if expected == -1:
            self.epoch, self.before = self.epoch + 1, -1
        elif expected == self.epoch:
            self.epoch, self.before = self.epoch + 1, expected
        elif expected != self.before:
            return SimpleNamespace(error_code=codes.PRODUCER_FENCED)
        return SimpleNamespace(error_code=codes.NONE, producer_id=0, producer_epoch=self.epoch)

    def move(self) -> None:
        """``before`` is not in the log that the next coordinator reads."""
        self.before = -1


class _Asked:
    """A request on its way: a run waits here until the order of events continues with it."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def __await__(self) -> Generator[_Asked, Any, Any]:
        return (yield self)


class _Link:
    """A link whose requests end up in the hands of the test."""

    alias = "target"

    def __init__(self) -> None:
        self.loop = SimpleNamespace(sleep=self._nothing)

    async def _nothing(self, *_: object, **__: object) -> None:
        return None

    open = refresh = _nothing

    async def coordinator(self, _: str) -> int:
        return 0

    def forget_coordinator(self, _: str) -> None:
        return None

    async def ask_each(self, _: object) -> dict[int, object]:
        return {}

    async def send(self, _: int, request: Any) -> Any:
        return await _Asked(request.producer_epoch)


class Run:
    """One run's side: what it does now, and whether it believes that it owns the flow."""

    def __init__(self) -> None:
        cluster = ClusterSettings.plaintext("target", "127.0.0.1:1")
        flow = FlowSettings(FlowName("source", "target"), cluster, cluster)
        self.owner = Ownership(flow, 0, cast(ClusterLink, _Link()), 3600.0)
        self.work: Coroutine[_Asked, Any, None] | None = None
        self.asked: _Asked | None = None
        self.stopped = False

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.work = work()
        self._go_on(lambda coroutine: coroutine.send(None))

    def answer(self, answer: Any) -> None:
        self._go_on(lambda coroutine: coroutine.send(answer))

    def fail(self) -> None:
        self._go_on(lambda coroutine: coroutine.throw(RetriableFault("the connection was lost")))

    def _go_on(self, step: Callable[[Coroutine[_Asked, Any, None]], _Asked]) -> None:
        assert self.work is not None
        try:
            self.asked = step(self.work)
        except StopIteration:
            self.work = self.asked = None
        except FlowOwnedElsewhere:
            self.work = self.asked = None
            self.stopped = True


@dataclass
class Order:
    """One order of events; ``taken`` lists the choices as (which, of how many)."""

    prefix: list[int]
    taken: list[tuple[int, int]] = field(default_factory=list)

    def choose(self, options: int) -> int:
        number = len(self.taken)
        choice = self.prefix[number] if number < len(self.prefix) else 0
        self.taken.append((choice, options))
        return choice

    def others(self) -> Iterator[list[int]]:
        """The orders that differ first after the prefix."""
        made = [choice for choice, _ in self.taken]
        for number in range(len(self.prefix), len(self.taken)):
            for other in range(1, self.taken[number][1]):
                yield [*made[:number], other]


@dataclass
class World:
    """``faults`` and ``moves`` may happen. ``sure`` lists who came to believe that it owns the flow, in order."""

    order: Order
    faults: int
    moves: int
    coordinator: Coordinator = field(default_factory=Coordinator)
    late: list[int] = field(default_factory=list)
    sure: list[Run] = field(default_factory=list)

    def together(self, *runs: Run) -> None:
        """Until all of them have ended, in any order."""
        waiting = [run for run in runs if run.work is not None]
        while waiting:
            events: list[Callable[[], None]] = []
            for run in waiting:
                events.append(lambda run=run: self._deliver(run, ANSWERED))  # type: ignore[misc]
                if self.faults:
                    for fate in (UNANSWERED, LOST, LATE):
                        events.append(lambda run=run, fate=fate: self._deliver(run, fate))  # type: ignore[misc]
            events += [lambda number=number: self._arrive(number) for number in range(len(self.late))]  # type: ignore[misc]
            if self.moves and self.coordinator.before != -1:
                events.append(self._move)
            events[self.order.choose(len(events))]()
            for run in [one for one in waiting if one.work is None]:
                waiting.remove(run)
                if not run.stopped:
                    self.believes(run)

    def alone(self, run: Run, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Without any fault; whether it believes that it owns the flow."""
        run.begin(work)
        while run.work is not None:
            self._deliver(run, ANSWERED)
        if not run.stopped:
            self.believes(run)
        return not run.stopped

    def believes(self, run: Run) -> None:
        """No other run may have believed it since this run last did: it would continue from an outdated
        state, and the other one does not stop."""
        if run in self.sure:
            last = len(self.sure) - 1 - self.sure[::-1].index(run)
            assert {*self.sure[last:]} == {run}, "another run owned the flow in between"
        self.sure.append(run)

    def _deliver(self, run: Run, fate: int) -> None:
        assert run.asked is not None
        epoch = run.asked.epoch
        self.faults -= fate != ANSWERED
        if fate == ANSWERED:
            run.answer(self.coordinator.carry_out(epoch))
            return
        if fate == UNANSWERED:
            self.coordinator.carry_out(epoch)
        elif fate == LATE:
            self.late.append(epoch)
        run.fail()

    def _arrive(self, number: int) -> None:
        self.coordinator.carry_out(self.late.pop(number))

    def _move(self) -> None:
        self.moves -= 1
        self.coordinator.move()


class _Thrown(Order):
    """Random choices."""

    def choose(self, options: int) -> int:
        number = len(self.taken)
        self.taken.append((self.prefix[number] % options if number < len(self.prefix) else 0, options))
        return self.taken[-1][0]


def _every_order(story: Callable[[Order], object]) -> int:
    left = [Order([])]
    count = 0
    while left:
        order = left.pop()
        count += 1
        story(order)
        left += [Order(prefix) for prefix in order.others()]
    return count


def _settle(world: World, *runs: Run) -> list[Run]:
    """All goes well from here on: who still owns the flow after everyone has asserted itself, twice over."""
    for run in [*runs, *runs]:
        if not run.stopped:
            world.alone(run, run.owner._again)
    return [run for run in runs if not run.stopped]


def _overtaken(world: World, first: str = "older") -> int:
    """A run asserts itself while another one takes its flow; how many own it afterwards."""
    older, newer = Run(), Run()
    assert world.alone(older, older.owner._take)
    older.begin(older.owner._again)
    newer.begin(newer.owner._take)
    world.together(older, newer)
    return len(_settle(world, *((older, newer) if first == "older" else (newer, older))))


@pytest.mark.parametrize("first", ["older", "newer"])
def test_a_run_is_overtaken_while_it_asserts_itself(first: str) -> None:
    ends: set[int] = set()
    assert _every_order(lambda order: ends.add(_overtaken(World(order, faults=1, moves=1), first))) > 1000
    assert ends == {0, 1}


def test_two_runs_take_the_flow_at_once() -> None:
    def story(order: Order) -> None:
        world = World(order, faults=1, moves=1)
        runs = [Run(), Run()]
        for run in runs:
            run.begin(run.owner._take)
        world.together(*runs)
        assert len(_settle(world, *runs)) <= 1

    assert _every_order(story) > 1000


def test_the_newer_one_goes_on_where_no_answer_is_lost() -> None:
    assert _every_order(lambda order: _newer_goes_on(World(order, faults=0, moves=2))) > 10


def _newer_goes_on(world: World) -> None:
    assert _overtaken(world) == 1
    assert not world.sure[-1].stopped
    assert world.sure[-1] is not world.sure[0]


def test_a_run_alone_goes_on_whatever_answer_is_lost() -> None:
    def story(order: Order) -> None:
        world = World(order, faults=1, moves=1)
        run = Run()
        assert world.alone(run, run.owner._take)
        run.begin(run.owner._again)
        world.together(run)
        assert _settle(world, run) == [run]

    assert _every_order(story) > 10


@settings(max_examples=examples(400))
@given(st.lists(st.integers(0, 10_000), max_size=80), st.integers(1, 5), st.integers(0, 3))
def test_many_faults_and_three_runs(dice: list[int], faults: int, moves: int) -> None:
    """Some of the orders, which are too many to try them all."""
    world = World(_Thrown(dice), faults, moves)
    runs = [Run(), Run(), Run()]
    assert world.alone(runs[0], runs[0].owner._take)
    runs[0].begin(runs[0].owner._again)
    for run in runs[1:]:
        run.begin(run.owner._take)
    world.together(*runs)
    assert len(_settle(world, *runs)) <= 1
