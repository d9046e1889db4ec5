"""The order of the ring's files: the longest ones first, so that no worker ends long after the others."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent

#: Files that take a worker more than half a minute, the longest first (``--durations=0``). Which file a worker gets
#: next is settled by this order; the others follow by name.
LONGEST_FIRST = (
    "access/test_tickets.py",
    "access/test_changed_secrets.py",
    "access/test_certificate_alarms.py",
    "access/test_oauth.py",
    "testing/test_cluster_contract.py",
    "access/test_rights.py",
    "runs/test_slots.py",
    "rest/test_services.py",
    "access/test_kerberos.py",
    "access/test_scram.py",
    "access/test_rights_of_principals.py",
    "runs/test_replicate.py",
    "schemas/test_karapace_flows.py",
    "testing/test_verify_demo.py",
    "client/test_silent_servers.py",
    "verification/test_verify_copies.py",
    "runs/test_equality.py",
    "runs/test_bad_input.py",
    "runs/test_hanging_transactions.py",
    "runs/test_replica_reads.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if gone := [name for name in LONGEST_FIRST if not (_HERE / name).is_file()]:
        raise pytest.UsageError(f"{__file__}: LONGEST_FIRST names what is not there: {', '.join(gone)}")
    place = {_HERE / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))
