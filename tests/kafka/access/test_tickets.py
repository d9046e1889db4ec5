"""Runs between clusters with Kerberos alone that outlive their tickets, and principals that are removed meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.runs.run_record import RunState
from srm_common.testing import LocalKafka
from tests.faults.live_writer import LiveWriter
from tests.kafka.access.secured import Secured, assert_equal, flow_of, topic_of
from tests.kafka.access.test_changed_secrets import During, fault_of
from tests.kafka.topic_pairs import run
from tests.kdc import REALM, LocalKdc, needs_kerberos
from tests.kerberized import asked, brokers, by_keytab, by_ticket_cache

pytestmark = needs_kerberos

#: The longest life of a ticket; a run takes some of them.
TICKET_SECONDS = 12
_PATIENT: dict[str, Any] = {"chunk_seconds": 0.3, "tasks_max": 1, "request_timeout_ms": 5_000}


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKdc]:
    with asked(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def kafkas(kdc: LocalKdc) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    with brokers(kdc) as both:
        yield both


@pytest.fixture
def keytab(kdc: LocalKdc) -> Path:
    """Of a principal with brief tickets."""
    return kdc.keytab("brief", tickets=f"{TICKET_SECONDS}s")


@contextmanager
def refilled(kdc: LocalKdc, principal: str, keytab: Path, cache: Path) -> Iterator[None]:
    """The ticket cache has a ticket that does not end soon, as k5start keeps it: each one takes the other's place."""
    over = threading.Event()

    def fill() -> None:
        new = kdc.ticket_cache(principal, keytab, cache.with_name("new"), lifetime=f"{TICKET_SECONDS}s")
        os.replace(new, cache)

    def refill() -> None:
        while not over.wait(TICKET_SECONDS / 4):
            fill()

    fill()
    with ThreadPoolExecutor(1) as pool:
        filling = pool.submit(refill)
        try:
            yield
        finally:
            over.set()
        filling.result()


def test_a_run_under_load_outlives_its_tickets(
    kdc: LocalKdc, kafkas: tuple[LocalKafka, LocalKafka], keytab: Path, tmp_path: Path, name: str
) -> None:
    """Nothing has to be repeated: a keytab gives new tickets before the old ones end, and a cache is read again."""
    source = Secured(kafkas[0], by_keytab("brief", keytab))
    target = Secured(kafkas[1], by_ticket_cache(tmp_path / "cache", "otherkafka"))
    user = kdc.keytab("reader")
    with refilled(kdc, "reader", user, tmp_path / "cache"):
        flow = flow_of(source, target, name, run_max_seconds=3.0 * TICKET_SECONDS, **_PATIENT)
        copy = topic_of(source, flow, name, 3)
        before = kdc.logins("brief")
        with LiveWriter(kafkas[0].internal_servers, name, 3, 1, rate=500):
            record = run(flow)
        assert (record.state, record.retries, record.error) == (RunState.DONE, 0, None), record.notes
        assert record.records > 0
        assert kdc.logins("brief") >= before + 2, "tickets have ended"
        run(replace(flow, run_max_seconds=0.0))
    assert assert_equal(source, name, target, copy) > 500


@pytest.mark.parametrize("which", [0, 1], ids=["by keytab", "by ticket cache"])
def test_a_principal_that_is_removed_during_a_run(
    kdc: LocalKdc, kafkas: tuple[LocalKafka, LocalKafka], which: int, tmp_path: Path, name: str
) -> None:
    """It is told once the last ticket has ended; what was committed stays, and the flow goes on when it is back."""
    cache, tickets = tmp_path / "cache", f"{TICKET_SECONDS}s"
    keytab = kdc.keytab("leaver", tickets=tickets)
    other = by_keytab("copier", kdc.keytab("copier"))
    logins = (
        (by_keytab("leaver", keytab), other | {"sasl.kerberos.service.name": "otherkafka"}),
        (other, by_ticket_cache(cache, "otherkafka")),
    )[which]
    if which:
        kdc.ticket_cache("leaver", keytab, cache, lifetime=tickets)
    source, target = (Secured(kafka, login) for kafka, login in zip(kafkas, logins, strict=True))
    flow = flow_of(source, target, name, run_max_seconds=10.0 * TICKET_SECONDS, retry_timeout_seconds=5.0, **_PATIENT)
    copy = topic_of(source, flow, name, 3)
    alias = (flow.name.source, flow.name.target)[which]
    sentences = (
        f"the login by Kerberos as leaver@{REALM} to kafka@127.0.0.1 of cluster '{alias}' failed: ",
        f"the login by Kerberos to otherkafka@127.0.0.1 of cluster '{alias}' failed: ",
    )
    with LiveWriter(kafkas[0].internal_servers, name, 3, 2, rate=300):
        for text in (fault_of(flow, During(lambda: kdc.remove("leaver"))), fault_of(flow)):
            assert sentences[which] in text, text
            assert ("expired" if which else "not found in Kerberos database") in text, text
            assert "\n" not in text
    keytab = kdc.keytab("leaver")
    if which:
        kdc.ticket_cache("leaver", keytab, cache)
    record = run(replace(flow, run_max_seconds=0.0))
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(source, name, target, copy) > 0
