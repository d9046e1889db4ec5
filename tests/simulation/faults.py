"""Faults at random moments of a seed. Each draws from numbers of its own, so that leaving one out changes no other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from srm_common.kafka.client.protocol import codes
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.messages import Answer, Call
from srm_common.testing.fake_cluster.service import Waiting
from tests.simulation.brokers import Brokers
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

_MOST = 8
_TIMED_OUT, _TOO_FEW_AFTER_APPEND = 7, 20
#: How long faults last, in seconds: shorter and longer than the limits of requests and transactions.
_LENGTHS = (0.05, 0.5, 2.0, 6.0, 20.0, 45.0)
#: Longer than transactions, requests and the patience with them: no shorter because all else heals meanwhile.
_LONG = (6.0, 20.0, 40.0)
_COORDINATOR = (14, 15, 16, codes.CONCURRENT_TRANSACTIONS)
_LEADER = (3, 5, 6, 7, 9, 19)
_CHUNK = (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, codes.INVALID_PRODUCER_EPOCH, codes.UNKNOWN_PRODUCER_ID)
#: What is refused, with the codes that brokers have for it: at the target, and Fetch at the source.
REFUSED = {
    "Produce": (*_LEADER, *_CHUNK, codes.CORRUPT_MESSAGE),
    "EndTxn": _COORDINATOR,
    "AddPartitionsToTxn": _COORDINATOR,
    "InitProducerId": _COORDINATOR,
    "FindCoordinator": (14, 15),
    "ListOffsets": _LEADER,
    "Fetch": _LEADER,
}
_REFUSED_AT_TARGET = tuple(api for api in REFUSED if api != "Fetch")
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


class Planned(NamedTuple):
    """One fault of a plan.

    It happens at ``moment``, in seconds since the begin, or earlier: when so many ``requests`` of ``api`` have been
    carried out. What else it draws comes from its ``number``.
    """

    number: int
    kind: str
    moment: float
    api: str | None
    requests: int


class Faults:
    """The faults of a seed.

    Args:
        planned: the faults, where the seed does not draw them.
    """

    def __init__(self, scenario: Scenario, planned: Sequence[Planned] | None = None) -> None:
        self._scenario = scenario
        self._world = world = scenario.world
        self._open: list[Callable[[], object]] = []
        self._happened: set[int] = set()
        #: Their kinds, in turn, without those that found nothing to strike.
        self.struck: list[str] = []
        if planned is None:
            planned = tuple(self._draw(world.chance("faults"), list(KINDS)))
        #: By their numbers.
        self.plan = tuple(planned)
        for one in self.plan:
            happen = partial(self._happen, one, world.chance(f"fault {one.number}"))
            world.after(one.moment, happen)
            if one.api is not None:
                (scenario.source if one.api == "Fetch" else scenario.target).after(one.requests, one.api).do(happen)

    def heal(self) -> None:
        """End all that lasts."""
        while self._open:
            self._open.pop()()

    # ---- inside

    def _draw(self, draw: random.Random, kinds: Sequence[str]) -> Iterator[Planned]:
        for number in range(draw.randrange(1, _MOST + 1)):
            kind, moment = draw.choice(kinds), draw.uniform(0.0, self._scenario.load_seconds)
            api, count = draw.choice(_MOMENTS), int(draw.expovariate(1 / _USUAL_COUNT)) + 1
            yield Planned(number, kind, round(moment, 3), api if draw.random() < 0.7 else None, count)

    def _happen(self, one: Planned, draw: random.Random) -> None:
        if self._scenario.healed or one.number in self._happened:
            return
        self._happened.add(one.number)
        self._world.note("fault", one.kind)
        self._scenario.say(f"fault: {one.kind}")
        if KINDS[one.kind](self, draw):
            self.struck.append(one.kind)

    def _lasting(self, draw: random.Random, undo: Callable[[], object]) -> bool:
        """``undo`` is called after a while, or when all heals. True: something was struck."""
        self._open.append(undo)

        def end() -> None:
            if undo in self._open:
                self._open.remove(undo)
                undo()

        self._world.after(draw.choice(_LENGTHS), end)
        return True

    def _cluster(self, draw: random.Random) -> FakeCluster:
        return draw.choice((self._scenario.source, self._scenario.target, self._scenario.target))

    @staticmethod
    def _brokers(cluster: FakeCluster) -> Brokers:
        assert isinstance(cluster._server, Brokers)
        return cluster._server

    def _some(self, draw: random.Random, processes: list[Process]) -> Process | None:
        alive = [process for process in processes if process.alive]
        return draw.choice(alive) if alive else None

    def _kill_worker(self, draw: random.Random) -> bool:
        process = self._some(draw, self._scenario.driver.workers)
        if process is not None:
            self._scenario.network.kill(process, silently=draw.random() < 0.4)
        return process is not None

    def _kill_driver(self, draw: random.Random) -> bool:
        process = self._some(draw, self._scenario.drivers)
        if process is None:
            return False
        network = self._scenario.network
        network.kill(process, silently=draw.random() < 0.4)
        for worker in self._scenario.driver.workers:
            # Spark ends them sooner or later, or never.
            if worker.alive and worker.name.startswith(f"{process.name}/") and draw.random() < 0.6:
                self._world.after(draw.choice(_LENGTHS), lambda worker=worker: network.kill(worker))  # type: ignore[misc]
        return True

    def _stop(self, draw: random.Random, process: Process | None) -> bool:
        if process is None:
            return False
        process.stop()
        return self._lasting(draw, process.resume)

    def _stop_worker(self, draw: random.Random) -> bool:
        return self._stop(draw, self._some(draw, self._scenario.driver.workers))

    def _stop_driver(self, draw: random.Random) -> bool:
        return self._stop(draw, self._some(draw, self._scenario.drivers))

    def _broker_down(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        node = draw.choice(cluster.nodes)
        if not cluster._server.listening(node):
            return False
        cluster.stop(node)
        return self._lasting(draw, lambda: cluster.restart(node))

    def _broker_frozen(self, draw: random.Random) -> bool:
        brokers = self._brokers(self._cluster(draw))
        node = draw.choice(list(brokers.places))
        brokers.freeze(node)
        return self._lasting(draw, lambda: brokers.thaw(node))

    def _partition(self, draw: random.Random, *, one_way: bool = False) -> bool:
        cluster = self._cluster(draw)
        places = list(self._brokers(cluster).places.values())
        cut = set(draw.sample(places, draw.choice((1, 1, len(places)))))
        scenario = self._scenario
        process = self._some(draw, [*scenario.driver.workers, *scenario.drivers]) if draw.random() < 0.6 else None
        host = None if process is None else process.name
        heal = scenario.network.partition(lambda name, place: place in cut and host in (None, name), one_way=one_way)
        return self._lasting(draw, heal)

    def _reset(self, draw: random.Random) -> bool:
        share = draw.choice((0.2, 0.5, 1.0))
        self._scenario.network.reset_some(lambda wire: draw.random() < share)
        return True

    def _move_leader(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        topic = draw.choice(sorted(cluster.topics()))
        moved = False
        for partition in range(cluster.topics()[topic]):
            if draw.random() < 0.7 and cluster._topics.controlled and cluster._topics.led(topic, partition):
                cluster.move_leader(topic, partition)
                moved = True
        return moved

    def _move_coordinator(self, draw: random.Random) -> bool:
        cluster = self._scenario.target
        if _TRANSACTION_STATE not in cluster._topics.topics:
            return False
        moved = False
        for number, partition in enumerate(cluster._topics.topics[_TRANSACTION_STATE].partitions):
            if partition.leader >= 0 and cluster._topics.controlled:
                cluster.move_leader(_TRANSACTION_STATE, number)
                moved = True
        return moved

    def _refuse(self, draw: random.Random) -> bool:
        if draw.random() < 0.25:
            codes = REFUSED["Fetch"]
            return self._lasting(
                draw, self._scenario.source.refuse("Fetch", draw.choice(codes), times=draw.randrange(1, 4)).end
            )
        api = draw.choice(("Produce", "Produce", *_REFUSED_AT_TARGET))
        times = draw.choice((1, 1, 2, 5, None))
        return self._lasting(draw, self._scenario.target.refuse(api, draw.choice(REFUSED[api]), times=times).end)

    def _drop(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        return self._lasting(draw, cluster.drop_answer(draw.choice(_ASKED), times=draw.choice((1, 1, 2, 4))).end)

    def _lose(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        return self._lasting(draw, cluster.lose_request(draw.choice(_ASKED), times=draw.choice((1, 1, 2, 4))).end)

    def _delay(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        api = draw.choice((*_ASKED, None))
        return self._lasting(draw, cluster.delay(draw.choice((0.05, 0.7, 4.0, 7.0)), api).end)

    def _silence(self, draw: random.Random) -> bool:
        return self._lasting(draw, self._cluster(draw).silence(draw.choice((*_ASKED, None))).end)

    def _stick(self, draw: random.Random) -> bool:
        places = set(self._brokers(self._scenario.target).places.values())
        share = draw.choice((0.3, 1.0))
        release = self._scenario.network.hold_some(
            lambda wire: wire.place in places and "slot" in wire.host and draw.random() < share
        )
        self._lasting(draw, release)
        if draw.random() < 0.7:
            # Right behind what the client has asked since then on another connection.
            api, latency = draw.choice(("InitProducerId", "EndTxn", "Produce")), self._scenario.network.latency
            seconds = draw.uniform(0.0, 8 * latency)
            self._scenario.target.after(draw.randrange(1, 4), api).do(lambda: self._world.after(seconds, release))
        return True

    def _throttle(self, draw: random.Random) -> bool:
        api = draw.choice(("Produce", "Fetch"))
        cluster = self._scenario.source if api == "Fetch" else self._scenario.target
        times = draw.choice((1, 5, None))
        return self._lasting(draw, cluster.throttle(api, draw.choice((0.02, 0.5, 4.0)), times=times).end)

    def _not_replicated(self, draw: random.Random) -> bool:
        code = draw.choice((_TIMED_OUT, _TOO_FEW_AFTER_APPEND))
        return self._lasting(draw, self._scenario.target.refuse_after(code, times=draw.choice((1, 1, 3, None))).end)

    def _strike_at_commit(self, draw: random.Random) -> bool:
        """A worker is stopped when its chunk has been stored and the commit is still to be asked for, or hears nothing
        more when the commit has been carried out. Nothing is struck before."""
        handlers: Any = self._scenario.target._server._handlers
        api, left = draw.choice(("Produce", "EndTxn")), [draw.randrange(1, 6)]
        handle = handlers[api]

        def handled(call: Call) -> Answer | Waiting:
            answer: Answer | Waiting = handle(call)
            body = call.body
            if api == "EndTxn":
                commits = bool(body.committed)
            else:
                commits = any(topic.name == self._scenario.offsets_topic for topic in body.topic_data)
            left[0] -= commits
            if commits and left[0] == 0:
                self._strike(draw, self._worker_of(body.transactional_id), stopped=api == "Produce")
            return answer

        handlers[api] = handled
        return False

    def _worker_of(self, transactional_id: str | None) -> Process | None:
        """The newest process of a slot."""
        number = (transactional_id or "").rpartition("-")[2]
        workers = reversed(self._scenario.driver.workers)
        return next((worker for worker in workers if worker.alive and worker.name.endswith(f"/slot-{number}")), None)

    def _strike(self, draw: random.Random, worker: Process | None, *, stopped: bool) -> None:
        if worker is None or self._scenario.healed:
            return
        if stopped:
            worker.stop()
            heal: Callable[[], object] = worker.resume
        else:
            host = worker.name
            heal = self._scenario.network.partition(lambda name, place: name == host, one_way=True)
            # The slot's next process is on another machine.
            worker.ended.append(lambda _: heal())
        self._world.after(draw.choice(_LONG), heal)
        self.struck.append("struck at a commit")

    def _controller_away(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        if not cluster._topics.controlled:
            return False
        cluster._topics.controller_left()
        self._lasting(draw, cluster._topics.controller_came)
        if draw.random() < 0.8:
            self._broker_down(draw)
        return True

    def _slow(self, draw: random.Random) -> bool:
        network, slow = self._scenario.network, draw.choice((0.2, 1.0))
        network.slow.append(slow)
        return self._lasting(draw, lambda: network.slow.remove(slow))

    def _second_driver(self, draw: random.Random) -> bool:
        self._scenario.start_driver()
        return True

    def _retention(self, draw: random.Random) -> bool:
        return self._scenario.load.delete(draw, self._scenario.has_progress)

    def _log_cut(self, draw: random.Random) -> bool:
        return self._scenario.load.cut(draw)

    def _topic_created_again(self, draw: random.Random) -> bool:
        # A slot that names topics may take what is in the new one for what follows (docs/compatibility.md).
        return not self._scenario.by_name and self._scenario.load.create_again(draw)

    def _broker_isolated(self, draw: random.Random) -> bool:
        cluster = self._cluster(draw)
        node = draw.choice(cluster.nodes)
        topics = cluster._topics
        # Without ids, an earlier leader of a topic is not told from one of a topic that was created again.
        told = cluster is self._scenario.target or not self._scenario.by_name
        if not (told and topics.controlled and node in topics.alive and len(topics.alive) > 1):
            return False
        cluster.isolation.begin(node)
        return self._lasting(draw, lambda: cluster.isolation.end(node))

    def _answers_cut_off(self, draw: random.Random) -> bool:
        return self._partition(draw, one_way=True)


#: What does each kind of fault, and says whether it found something to strike. A seed draws by their order.
KINDS: dict[str, Callable[[Faults, random.Random], bool]] = {
    "worker killed": Faults._kill_worker,
    "driver killed": Faults._kill_driver,
    "worker stopped": Faults._stop_worker,
    "driver stopped": Faults._stop_driver,
    "second driver": Faults._second_driver,
    "broker down": Faults._broker_down,
    "broker frozen": Faults._broker_frozen,
    "partition": Faults._partition,
    "connections reset": Faults._reset,
    "leader moved": Faults._move_leader,
    "coordinator moved": Faults._move_coordinator,
    "requests refused": Faults._refuse,
    "answers lost": Faults._drop,
    "requests lost": Faults._lose,
    "requests delayed": Faults._delay,
    "silence": Faults._silence,
    "slow network": Faults._slow,
    "retention": Faults._retention,
    "log cut": Faults._log_cut,
    "answers cut off": Faults._answers_cut_off,
    "connections stuck": Faults._stick,
    "throttled": Faults._throttle,
    "not replicated": Faults._not_replicated,
    "controller away": Faults._controller_away,
    "struck at a commit": Faults._strike_at_commit,
    "topic created again": Faults._topic_created_again,
    "broker isolated": Faults._broker_isolated,
}
