"""The kinds of faults that rounds at random choose from, and the stages that these rounds play on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from srm_common.domain.cluster import ClusterSettings
from srm_common.testing import LocalKafka
from tests.faults.broker_clock import BrokerClock
from tests.faults.certificates import Certificates
from tests.faults.copier import AHEAD, BACK
from tests.faults.leaders import shuffle_leaders
from tests.faults.lossy_proxy import (
    ADD_PARTITIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    LossyProxy,
)
from tests.faults.quotas import quota
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import Scenario
from tests.spark.standalone import StandaloneSpark

#: What the flow asks of each side while it copies.
_OF_SOURCE = (FETCH, LIST_OFFSETS, METADATA)
_OF_TARGET = (PRODUCE, END_TXN, INIT_PRODUCER_ID, ADD_PARTITIONS, FIND_COORDINATOR)


@dataclass(frozen=True)
class Stage:
    """Two clusters, which may be reached through proxies. ``spark``: where the slots of runs are, if not in worker
    processes of the driver. By ``source`` and ``target``: ``certificates``, where the flow has to use TLS, and
    ``clocks``, where those of the brokers can be shifted."""

    label: str
    source: LocalKafka
    target: LocalKafka
    source_proxy: LossyProxy | None = None
    target_proxy: LossyProxy | None = None
    spark: StandaloneSpark | None = None
    certificates: Mapping[str, Certificates] | None = None
    clocks: Mapping[str, BrokerClock] | None = None

    def cluster(self, side: str, alias: str) -> ClusterSettings:
        """How the flow reaches its source or its target."""
        kafka, proxy = getattr(self, side), getattr(self, f"{side}_proxy")
        if self.certificates is not None:
            return self.certificates[side].cluster(alias, kafka.bootstrap_servers)
        return ClusterSettings.plaintext(alias, kafka.bootstrap_servers if proxy is None else proxy.address)

    def kinds(self) -> dict[str, Fault]:
        """The faults that can be played here, by what a table calls them."""
        found = KINDS | (OF_CLOCKS if self.spark is None else OF_EXECUTORS)
        if self.certificates is not None:
            found |= OF_CERTIFICATES
        if self.clocks is not None:
            found |= OF_BROKERS_CLOCKS
        if self.source_proxy is not None:
            found |= OF_PROXIES
        if len(self.target.nodes) > 1:
            found |= OF_THREE_NODES
        return found


Fault = Callable[[Stage, Scenario, Run], None]


def _kill_driver(stage: Stage, one: Scenario, run: Run) -> None:
    run.kill_driver()


def _kill_all(stage: Stage, one: Scenario, run: Run) -> None:
    run.kill_all()


def _kill_worker(stage: Stage, one: Scenario, run: Run) -> None:
    run.kill_a_worker(one.dice)


def _freeze_all(stage: Stage, one: Scenario, run: Run) -> None:
    run.signal_all(signal.SIGSTOP)
    one.pause(0.5, 4.0)
    run.signal_all(signal.SIGCONT)


def _freeze_driver(stage: Stage, one: Scenario, run: Run) -> None:
    run.signal_driver(signal.SIGSTOP)
    one.pause(0.5, 4.0)
    run.signal_driver(signal.SIGCONT)


def _kill_executor(stage: Stage, one: Scenario, run: Run) -> None:
    """Spark starts another one, and the task again; the workers of this one end a little later."""
    run.executor(one.dice).kill()


def _freeze_executor(stage: Stage, one: Scenario, run: Run) -> None:
    """The JVM alone: its workers copy on, and their results wait."""
    executor = run.executor(one.dice)
    executor.send_signal(signal.SIGSTOP)
    one.pause(0.5, 4.0)
    executor.send_signal(signal.SIGCONT)


def _kill_daemon(stage: Stage, one: Scenario, run: Run) -> None:
    """What the workers of an executor are forked from."""
    for daemon in run.executor(one.dice).children():
        daemon.kill()


def _jump(number: int) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        run.signal_all(number)

    return fault


def _shift(seconds: float) -> Callable[[str], Fault]:
    """By an hour and more, brokers would refuse what others write (``message.timestamp.after.max.ms``)."""

    def of_cluster(cluster: str) -> Fault:
        def fault(stage: Stage, one: Scenario, run: Run) -> None:
            assert stage.clocks is not None, f"{stage.label} has no clocks"
            stage.clocks[cluster].shift(seconds)
            try:
                one.pause(0.5, 4.0)
            finally:
                stage.clocks[cluster].shift(0.0)

        return fault

    return of_cluster


def _overtake_frozen(stage: Stage, one: Scenario, run: Run) -> None:
    """Another run takes over from one that is frozen, which wakes up and must be refused."""
    run.signal_all(signal.SIGSTOP)
    try:
        later = one.start_run(PATIENCE, until_copying=True)
        one.wait_for_copied(later, one.copied_offsets() + 1)
    finally:
        run.signal_all(signal.SIGCONT)
    one.pause(0.2, 1.0)
    later.kill_all()
    run.kill_all()


def _restart(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        kafka: LocalKafka = getattr(stage, cluster)
        node = one.dice.choice(kafka.nodes)
        kafka.kill(node)
        one.pause(0.0, 1.0 if len(kafka.nodes) == 1 else 3.0)
        kafka.restart(node)

    return fault


def _fill_disk(cluster: str) -> Fault:
    """A node that cannot write any more ends by itself."""

    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        kafka: LocalKafka = getattr(stage, cluster)
        node = one.dice.choice(kafka.nodes)
        kafka.fill_disk(node)
        one.pause(1.0, 4.0)
        kafka.restart(node)

    return fault


def _freeze(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        kafka: LocalKafka = getattr(stage, cluster)
        node = one.dice.choice(kafka.nodes)
        kafka.pause(node)
        one.pause(0.5, 4.0)
        kafka.resume(node)

    return fault


def _replace_certificates(cluster: str) -> Fault:
    """The broker's, and the flow's own. Both count from the next connection on, after the broker's restart or later."""

    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        assert stage.certificates is not None, f"{stage.label} has no certificates"
        kafka: LocalKafka = getattr(stage, cluster)
        stage.certificates[cluster].replace_own()
        stage.certificates[cluster].replace_brokers(kafka)
        if one.dice.random() < 0.7:
            kafka.kill()
            kafka.restart()

    return fault


def _move_leaders(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        kafka: LocalKafka = getattr(stage, cluster)
        if cluster == "source":
            topics = [one.topic]
        else:
            topics = [one.remote, one.state.offsets_topic, one.state.segments_topic, "__transaction_state"]
        for _ in range(one.dice.randrange(1, 5)):
            shuffle_leaders(kafka, topics, one.dice)
            one.pause(0.1, 0.6)

    return fault


def _throttle(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        kafka: LocalKafka = getattr(stage, cluster)
        rate = "consumer_byte_rate" if cluster == "source" else "producer_byte_rate"
        key, value = one.dice.choice([(rate, 100_000.0), ("request_percentage", 2.0)])
        with quota(kafka, key, value):
            one.pause(1.0, 3.0)

    return fault


def _lose_answers(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        proxy = _proxy(stage, cluster)
        for kind in _OF_SOURCE if cluster == "source" else _OF_TARGET:
            proxy.lose_share(kind, 0.1)
        one.pause(0.5, 1.5)
        proxy.calm()

    return fault


def _cut(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        for _ in range(one.dice.randrange(1, 4)):
            _proxy(stage, cluster).cut()
            one.pause(0.0, 0.5)

    return fault


def _swallow(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        proxy = _proxy(stage, cluster)
        proxy.swallow()
        one.pause(0.5, 6.0)
        proxy.calm()

    return fault


def _delay(cluster: str) -> Fault:
    def fault(stage: Stage, one: Scenario, run: Run) -> None:
        proxy = _proxy(stage, cluster)
        proxy.delay(one.dice.choice([0.02, 0.1, 0.4]))
        one.pause(1.0, 3.0)
        proxy.calm()

    return fault


def _proxy(stage: Stage, cluster: str) -> LossyProxy:
    proxy: LossyProxy | None = getattr(stage, f"{cluster}_proxy")
    assert proxy is not None, f"{stage.label} has no proxy before its {cluster}"
    return proxy


def _of_both(kinds: Mapping[str, Callable[[str], Fault]]) -> dict[str, Fault]:
    return {text.format(side): made(side) for text, made in kinds.items() for side in ("source", "target")}


#: Faults that end their run: another one has to go on.
ENDS = ("driver killed, its workers live on", "driver and workers killed", "run frozen, overtaken, and awake again")
KINDS: dict[str, Fault] = {
    **dict(zip(ENDS, (_kill_driver, _kill_all, _overtake_frozen), strict=True)),
    "worker killed": _kill_worker,
    "driver and workers frozen": _freeze_all,
    "driver frozen": _freeze_driver,
    **_of_both({"node of the {} killed": _restart, "node of the {} frozen": _freeze, "{} throttles": _throttle}),
    **_of_both({"disk of a node of the {} full": _fill_disk}),
}
OF_CLOCKS = {
    "clocks of driver and workers an hour ahead": _jump(AHEAD),
    "clocks of driver and workers an hour back": _jump(BACK),
}
OF_BROKERS_CLOCKS = _of_both(
    {
        "clocks of the {} half an hour ahead": _shift(1800.0),
        "clocks of the {} half an hour back": _shift(-1800.0),
    }
)
OF_PROXIES = _of_both(
    {
        "answers of the {} lost": _lose_answers,
        "connections to the {} cut": _cut,
        "packets of the {} swallowed": _swallow,
        "{} answers late": _delay,
    }
)
OF_THREE_NODES = {
    "leaders of the source moved": _move_leaders("source"),
    "leaders and coordinators of the target moved": _move_leaders("target"),
}
OF_EXECUTORS: dict[str, Fault] = {
    "JVM of an executor killed": _kill_executor,
    "JVM of an executor frozen": _freeze_executor,
    "Python daemon of an executor killed": _kill_daemon,
}
OF_CERTIFICATES = _of_both({"certificates of the {} replaced": _replace_certificates})
#: All of them, as tables name them.
ALL_KINDS = (*KINDS, *OF_CLOCKS, *OF_BROKERS_CLOCKS, *OF_PROXIES, *OF_THREE_NODES, *OF_EXECUTORS, *OF_CERTIFICATES)
