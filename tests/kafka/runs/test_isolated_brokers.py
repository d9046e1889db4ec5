"""A broker that is cut off from the controllers, while clients still reach it: it goes on as if it led what others lead
by now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import Event

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.flow.names import offsets_topic
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from tests.chosen_broker import answered_by
from tests.kafka.flows import flow_between, prepare
from tests.kafka.records import eventually, read_all
from tests.silent_peers import relay
from tests.slot_worker import here

pytestmark = [pytest.mark.kafka, pytest.mark.soak]


@dataclass
class Isolated:
    """Three nodes, of which the third asks the controllers of the others by way of relays."""

    kafka: LocalKafka
    controllers: list[Event] = field(default_factory=list)

    def addresses(self, *nodes: int) -> str:
        return ",".join(self.kafka.bootstrap_servers.split(",")[node - 1] for node in nodes)

    def place(self, topic: str, replicas: list[int], partitions: int = 1) -> None:
        """Create it, led by the first of ``replicas``."""
        compacted = {"cleanup.policy": "compact"} if topic.startswith(("mm2-", "__")) else {}
        new = NewTopic(topic, partitions, replica_assignment=[replicas] * partitions, config=compacted)
        self.kafka.admin().create_topics([new])[topic].result()
        eventually(lambda: self.leader(topic, 1) == replicas[0], 60, f"node {replicas[0]} does not lead")

    def leader(self, topic: str, node: int) -> int | None:
        """As one node sees it."""
        with pytest.MonkeyPatch.context() as patch:
            answered_by(patch, self.addresses(node))
            with ClusterLink(ClusterSettings.plaintext("a", self.addresses(node))) as link:
                link.run(lambda: link.open([topic]))
                return link.leader(topic, 0)

    def begin(self) -> None:
        for controller in self.controllers:
            controller.set()


@pytest.fixture
def isolated() -> Iterator[Isolated]:
    with ExitStack() as stack:
        found = Isolated(stack.enter_context(LocalKafka(nodes=3, name="isolated")))
        voters = []
        for node in found.kafka._nodes:
            address = node.controller.address
            if node.number != 3:
                address, controller = stack.enter_context(relay(address))
                found.controllers.append(controller)
            voters.append(f"{node.number}@{address}")
        found.kafka.restart(3, settings={"controller.quorum.voters": ",".join(voters)})
        yield found


def write(address: str, topic: str, first: int, after: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 0})
    for number in range(first, after):
        producer.produce(topic, value=b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def copied(flow: FlowSettings, side: str, address: str, run_id: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many records a run copies that is answered by the broker of one side at this address."""
    answered_by(monkeypatch, address)
    cluster = ClusterSettings.plaintext(getattr(flow, side).alias, address)
    flow = replace(flow, source=cluster) if side == "source" else replace(flow, target=cluster)
    record = replicate(flow, RunOptions(run_id=run_id), here)
    assert (record.state, record.failed_partitions) == (RunState.DONE, ()), record
    return record.records


def values(kafka: LocalKafka, topic: str) -> list[bytes | None]:
    return [placed.seen.value for placed in read_all(kafka, topic)[0]]


def test_at_the_source_nothing_is_lost_or_copied_again(
    isolated: Isolated, target_kafka: LocalKafka, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a deposed leader does not have would be taken for a loss, and all of the log be copied once more."""
    flow = flow_between(isolated.kafka, target_kafka, name, topics=(name,), on_data_loss=OnDataLoss.RESET)
    isolated.place(name, [3, 1, 2])
    write(isolated.kafka.bootstrap_servers, name, 0, 10)
    prepare(flow)
    assert copied(flow, "source", isolated.addresses(1), "first", monkeypatch) == 10

    isolated.begin()
    eventually(lambda: isolated.leader(name, 1) != 3, 60, "no other leader was elected")
    write(isolated.addresses(1, 2), name, 10, 15)
    assert copied(flow, "source", isolated.addresses(1), "second", monkeypatch) == 5
    assert isolated.leader(name, 3) == 3
    assert copied(flow, "source", isolated.addresses(3), "third", monkeypatch) == 0
    assert values(target_kafka, f"{flow.name.source}.{name}") == [b"%d" % number for number in range(15)]


def test_at_the_target_nothing_is_copied_from_former_positions(
    isolated: Isolated, source_kafka: LocalKafka, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_between(source_kafka, isolated.kafka, name, topics=(name,), retry_timeout_seconds=60.0)
    source_kafka.create_topic(name, 1)
    write(source_kafka.bootstrap_servers, name, 0, 10)
    isolated.place(offsets_topic(flow.name.source), [3, 1, 2])
    # A coordinator that is cut off gives nobody a producer id, and the run waits for another one.
    isolated.place("__transaction_state", [1, 2, 3], partitions=5)
    prepare(flow)
    assert copied(flow, "target", isolated.addresses(1), "first", monkeypatch) == 10

    isolated.begin()
    eventually(lambda: isolated.leader(offsets_topic(flow.name.source), 1) != 3, 60, "no other leader was elected")
    write(source_kafka.bootstrap_servers, name, 10, 15)
    assert copied(flow, "target", isolated.addresses(1), "second", monkeypatch) == 5
    assert isolated.leader(offsets_topic(flow.name.source), 3) == 3
    assert copied(flow, "target", isolated.addresses(3), "third", monkeypatch) == 0
    assert values(isolated.kafka, f"{flow.name.source}.{name}") == [b"%d" % number for number in range(15)]
