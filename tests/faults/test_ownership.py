"""Two runs that take the same flow at the same time: at most one of them goes on believing that it owns it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import FlowOwnedElsewhere
from srm_common.kafka.client.links.link import RetriableFault
from srm_common.replication.driver.ownership import Ownership
from srm_common.testing import LocalKafka

pytestmark = [pytest.mark.faults, pytest.mark.kafka]


@pytest.fixture
def flow(target_kafka: LocalKafka, name: str) -> FlowSettings:
    """A flow of its own alias; nothing is copied here."""
    target = ClusterSettings.plaintext("target", target_kafka.bootstrap_servers)
    return FlowSettings(FlowName(name, "target"), target, target)


def _overtaken(monkeypatch: pytest.MonkeyPatch, overtaker: Callable[[], Ownership]) -> list[Ownership]:
    """While the next run fences, another one takes the flow as a whole."""
    original = Ownership._fence
    taken: list[Ownership] = []

    async def fence(self: Ownership, deadline: float) -> None:
        monkeypatch.setattr(Ownership, "_fence", original)
        taken.append(overtaker())
        await original(self, deadline)

    monkeypatch.setattr(Ownership, "_fence", fence)
    return taken


def test_run_overtaken_while_it_takes_the_flow(flow: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fenced only its own two slots; the other run's further four would go on beside it."""
    taken = _overtaken(monkeypatch, lambda: Ownership.take(flow, 6, 6))
    with pytest.raises(FlowOwnedElsewhere, match="another run took over flow"):
        Ownership.take(flow, 2, 2)
    # The owner's own slots were fenced by the late one; it notices, asserts itself and goes on.
    taken[0].refence()
    taken[0].release()


def test_run_overtaken_while_it_fences_again(flow: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Ownership.take(flow, 2, 2)
    taken = _overtaken(monkeypatch, lambda: Ownership.take(flow, 6, 6))
    with pytest.raises(FlowOwnedElsewhere):
        first.refence()
    first.abandon()
    taken[0].refence()
    taken[0].release()


def _lose_a_request(monkeypatch: pytest.MonkeyPatch, owner: Ownership, meanwhile: Callable[[], object]) -> None:
    """The run's next request is lost; something happens before it is sent again."""
    original = owner._link.send

    async def send(*_: object) -> None:
        monkeypatch.setattr(owner._link, "send", original)
        meanwhile()
        raise RetriableFault("the connection was lost")

    monkeypatch.setattr(owner._link, "send", send)


def test_lost_request_of_a_run_whose_flow_was_taken(flow: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch after its own is not one whose answer it lost: the new owner has taken it."""
    first = Ownership.take(flow, 2, 2)
    taken: list[Ownership] = []
    _lose_a_request(monkeypatch, first, lambda: taken.append(Ownership.take(flow, 2, 2)))
    with pytest.raises(FlowOwnedElsewhere):
        first.refence()
    first.abandon()
    taken[0].refence()
    taken[0].release()


def test_lost_request_of_a_run_whose_flow_is_being_taken(flow: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new run has asserted itself once when the older one asks whose the next epoch is: the coordinator takes the
    question for a repetition. The older one keeps the flow, and the new one must not believe that it has it, too."""
    first = Ownership.take(flow, 2, 2)
    original = Ownership._fence
    second: list[threading.Thread] = []
    asserted = threading.Event()
    done = threading.Event()
    refused: list[BaseException] = []

    async def wait(self: Ownership, deadline: float) -> None:
        monkeypatch.setattr(Ownership, "_fence", original)
        asserted.set()
        assert done.wait(180)
        await original(self, deadline)

    def take() -> None:
        try:
            Ownership.take(flow, 2, 2)
        except FlowOwnedElsewhere as error:
            refused.append(error)

    def begin() -> None:
        monkeypatch.setattr(Ownership, "_fence", wait)
        second.append(threading.Thread(target=take))
        second[0].start()
        assert asserted.wait(180)

    _lose_a_request(monkeypatch, first, begin)
    first.refence()
    done.set()
    second[0].join(180)
    assert len(refused) == 1
    first.refence()
    first.release()


def test_all_slots_that_ever_were_are_fenced(flow: FlowSettings) -> None:
    """Also those that nobody stored: the coordinators know them."""
    first = Ownership.take(flow, 6, 6)
    before: dict[str, Any] = {
        producer_identity.transactional_id: producer_identity for producer_identity in first.identities
    }
    second = Ownership.take(flow, 1, 1)
    assert set(second._identities) == set(before)
    for name, identity in second._identities.items():
        old = before[name]
        assert (identity.producer_id, identity.epoch) > (old.producer_id, old.epoch) or (
            identity.producer_id != old.producer_id
        )
    first.abandon()
    second.release()
