"""Faults at random moments of a seed. Each draws from numbers of its own, so that leaving one out changes no other."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from srm_common.kafka.client import codes
from srm_common.testing import FakeCluster
from tests.simulation.brokers import Brokers
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

_MOST = 8
#: How long faults last, in seconds: shorter and longer than the limits of requests and transactions.
_LENGTHS = (0.05, 0.5, 2.0, 6.0, 20.0, 45.0)
_COORDINATOR = (14, 15, 16, codes.CONCURRENT_TRANSACTIONS)
_LEADER = (3, 5, 6, 7, 9, 19)
_CHUNK = (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, codes.INVALID_PRODUCER_EPOCH, codes.UNKNOWN_PRODUCER_ID)
#: What is refused at the target, with the codes that brokers have for it.
_REFUSED = {
    "Produce": (*_LEADER, *_CHUNK),
    "EndTxn": _COORDINATOR,
    "AddPartitionsToTxn": _COORDINATOR,
    "InitProducerId": _COORDINATOR,
    "FindCoordinator": (14, 15),
    "ListOffsets": _LEADER,
}
_ASKED = (
    "Produce",
    "EndTxn",
    "AddPartitionsToTxn",
    "InitProducerId",
    "Fetch",
    "Metadata",
    "ListOffsets",
    "ApiVersions",
)
#: Most faults happen right after a broker has carried out so many of these, before its answer is under way, or at their
#: moment if that is earlier.
_MOMENTS = ("Produce", "Produce", "EndTxn", "AddPartitionsToTxn", "InitProducerId", "Fetch", "ListOffsets")
_USUAL_COUNT = 12
_TRANSACTION_STATE = "__transaction_state"


class Faults:
    """The faults of a seed.

    Args:
        without: numbers of faults that are left out.
    """

    def __init__(self, scenario: Scenario, without: frozenset[int] = frozenset()) -> None:
        self._scenario = scenario
        self._world = world = scenario.world
        self._open: list[Callable[[], object]] = []
        self._happened: set[int] = set()
        plan = world.chance("faults")
        some: dict[str, Callable[[random.Random], object]] = {
            "worker killed": self._kill_worker,
            "driver killed": self._kill_driver,
            "worker stopped": self._stop_worker,
            "driver stopped": self._stop_driver,
            "second driver": lambda draw: scenario.start_driver(),
            "broker down": self._broker_down,
            "broker frozen": self._broker_frozen,
            "partition": self._partition,
            "connections reset": self._reset,
            "leader moved": self._move_leader,
            "coordinator moved": self._move_coordinator,
            "requests refused": self._refuse,
            "answers lost": self._drop,
            "requests lost": self._lose,
            "requests delayed": self._delay,
            "silence": self._silence,
            "slow network": self._slow,
            "retention": lambda draw: scenario.load.delete(draw, scenario.has_progress),
            "log cut": lambda draw: scenario.load.cut(draw),
        }
        names = list(some)
        kinds = []
        for number in range(plan.randrange(1, _MOST + 1)):
            kind, moment = plan.choice(names), plan.uniform(0.0, scenario.load_seconds)
            api, count = plan.choice(_MOMENTS), int(plan.expovariate(1 / _USUAL_COUNT)) + 1
            at_request = plan.random() < 0.7
            kinds.append(kind)
            if number in without:
                continue
            happen = partial(self._happen, number, some[kind], world.chance(f"fault {number}"))
            world.after(moment, happen)
            if at_request:
                (scenario.source if api == "Fetch" else scenario.target).after(count, api).do(happen)
        #: By their numbers.
        self.kinds = tuple(kinds)

    def heal(self) -> None:
        """End all that lasts."""
        while self._open:
            self._open.pop()()

    # ---- inside

    def _happen(self, number: int, work: Callable[[random.Random], object], draw: random.Random) -> None:
        if self._scenario.healed or number in self._happened:
            return
        self._happened.add(number)
        kind = self.kinds[number]
        self._world.note("fault", kind)
        self._scenario.say(f"fault: {kind}")
        work(draw)

    def _lasting(self, draw: random.Random, undo: Callable[[], object]) -> None:
        """``undo`` is called after a while, or when all heals."""
        self._open.append(undo)

        def end() -> None:
            if undo in self._open:
                self._open.remove(undo)
                undo()

        self._world.after(draw.choice(_LENGTHS), end)

    def _cluster(self, draw: random.Random) -> FakeCluster:
        return draw.choice((self._scenario.source, self._scenario.target, self._scenario.target))

    @staticmethod
    def _brokers(cluster: FakeCluster) -> Brokers:
        assert isinstance(cluster._server, Brokers)
        return cluster._server

    def _some(self, draw: random.Random, processes: list[Process]) -> Process | None:
        alive = [one for one in processes if one.alive]
        return draw.choice(alive) if alive else None

    def _kill_worker(self, draw: random.Random) -> None:
        process = self._some(draw, self._scenario.driver.workers)
        if process is not None:
            self._scenario.network.kill(process, silently=draw.random() < 0.4)

    def _kill_driver(self, draw: random.Random) -> None:
        process = self._some(draw, self._scenario.drivers)
        if process is None:
            return
        network = self._scenario.network
        network.kill(process, silently=draw.random() < 0.4)
        for worker in self._scenario.driver.workers:
            # Spark ends them sooner or later, or never.
            if worker.alive and worker.name.startswith(f"{process.name}/") and draw.random() < 0.6:
                self._world.after(draw.choice(_LENGTHS), lambda worker=worker: network.kill(worker))  # type: ignore[misc]

    def _stop(self, draw: random.Random, process: Process | None) -> None:
        if process is not None:
            process.stop()
            self._lasting(draw, process.resume)

    def _stop_worker(self, draw: random.Random) -> None:
        self._stop(draw, self._some(draw, self._scenario.driver.workers))

    def _stop_driver(self, draw: random.Random) -> None:
        self._stop(draw, self._some(draw, self._scenario.drivers))

    def _broker_down(self, draw: random.Random) -> None:
        cluster = self._cluster(draw)
        node = draw.choice(cluster.nodes)
        if not cluster._server.listening(node):
            return
        cluster.stop(node)
        self._lasting(draw, lambda: cluster.restart(node))

    def _broker_frozen(self, draw: random.Random) -> None:
        brokers = self._brokers(self._cluster(draw))
        node = draw.choice(list(brokers.places))
        brokers.freeze(node)
        self._lasting(draw, lambda: brokers.thaw(node))

    def _partition(self, draw: random.Random) -> None:
        cluster = self._cluster(draw)
        places = list(self._brokers(cluster).places.values())
        cut = set(draw.sample(places, draw.choice((1, 1, len(places)))))
        scenario = self._scenario
        process = self._some(draw, [*scenario.driver.workers, *scenario.drivers]) if draw.random() < 0.6 else None
        host = None if process is None else process.name
        heal = scenario.network.partition(lambda name, place: place in cut and host in (None, name))
        self._lasting(draw, heal)

    def _reset(self, draw: random.Random) -> None:
        share = draw.choice((0.2, 0.5, 1.0))
        self._scenario.network.reset_some(lambda wire: draw.random() < share)

    def _move_leader(self, draw: random.Random) -> None:
        cluster = self._cluster(draw)
        topic = draw.choice(sorted(cluster.topics()))
        for partition in range(cluster.topics()[topic]):
            if draw.random() < 0.7 and cluster._topics.partition(topic, partition).leader >= 0:
                cluster.move_leader(topic, partition)

    def _move_coordinator(self, draw: random.Random) -> None:
        cluster = self._scenario.target
        if _TRANSACTION_STATE not in cluster._topics.topics:
            return
        for number, partition in enumerate(cluster._topics.topics[_TRANSACTION_STATE].partitions):
            if partition.leader >= 0:
                cluster.move_leader(_TRANSACTION_STATE, number)

    def _refuse(self, draw: random.Random) -> None:
        if draw.random() < 0.25:
            self._lasting(
                draw, self._scenario.source.refuse("Fetch", draw.choice(_LEADER), times=draw.randrange(1, 4)).end
            )
            return
        api = draw.choice(("Produce", "Produce", *_REFUSED))
        times = draw.choice((1, 1, 2, 5, None))
        self._lasting(draw, self._scenario.target.refuse(api, draw.choice(_REFUSED[api]), times=times).end)

    def _drop(self, draw: random.Random) -> None:
        cluster = self._cluster(draw)
        self._lasting(draw, cluster.drop_answer(draw.choice(_ASKED), times=draw.choice((1, 1, 2, 4))).end)

    def _lose(self, draw: random.Random) -> None:
        cluster = self._cluster(draw)
        self._lasting(draw, cluster.lose_request(draw.choice(_ASKED), times=draw.choice((1, 1, 2, 4))).end)

    def _delay(self, draw: random.Random) -> None:
        cluster = self._cluster(draw)
        api = draw.choice((*_ASKED, None))
        self._lasting(draw, cluster.delay(draw.choice((0.05, 0.7, 4.0)), api).end)

    def _silence(self, draw: random.Random) -> None:
        self._lasting(draw, self._cluster(draw).silence(draw.choice((*_ASKED, None))).end)

    def _slow(self, draw: random.Random) -> None:
        network, slow = self._scenario.network, draw.choice((0.2, 1.0))
        network.slow.append(slow)
        self._lasting(draw, lambda: network.slow.remove(slow))
