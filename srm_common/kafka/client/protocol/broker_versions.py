"""The API versions that brokers offer, and which of these brokers this software supports."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.errors import UnsupportedBroker
from srm_common.wire.protocol import fetch


class ApiKey:
    """The numbers of request types, by which brokers list the versions that they offer (Kafka's ``ApiKeys``)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    LIST_GROUPS = 16
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    DESCRIBE_CONFIGS = 32
    DESCRIBE_QUORUM = 55
    DESCRIBE_PRODUCERS = 61
    LIST_TRANSACTIONS = 66


#: Names of the types of which the version is fixed, and the release of Kafka that has the oldest one that is sent.
_FIXED = {
    ApiKey.PRODUCE: ("Produce", "2.8"),
    ApiKey.FETCH: ("Fetch", "2.4"),
    ApiKey.INIT_PRODUCER_ID: ("InitProducerId", "2.7"),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("AddPartitionsToTxn", "2.8"),
    ApiKey.END_TXN: ("EndTxn", "2.8"),
}

Offered = Mapping[int, tuple[int, int]]
"""API key -> (oldest, newest) version, as a broker lists them."""


def version_fault(api: int, version: int, offered: Offered) -> str:
    """Why a broker does not take this version of a request, as the end of a sentence that begins with its cluster;
    empty if it does."""
    oldest, newest = offered.get(api, (0, -1))
    if oldest <= version <= newest:
        return ""
    name, since = _FIXED.get(api, (f"request type {api}", ""))
    if newest < 0:
        has = f"its brokers do not know {name}"
    elif newest < version:
        has = f"its brokers take {name} only up to version {newest}, and {version} is needed"
    else:
        return (
            f"its brokers take {name} only from version {oldest} on, and this software knows {version}; upgrade this "
            f"software"
        )
    return f"{has}; Kafka has had it since {since}: upgrade them" if since else has


def refuse_old_brokers(alias: str, offered: Offered) -> None:
    """What reading needs. Other requests are looked at when they are sent, as a source gets none of them. Raises
    :class:`UnsupportedBroker`."""
    newest = offered.get(ApiKey.FETCH, (0, -1))[1]
    fault = version_fault(ApiKey.FETCH, max(fetch.OLDEST_VERSION, min(newest, fetch.VERSION_BY_NAME)), offered)
    if fault:
        raise UnsupportedBroker(f"cluster {alias} cannot be used: {fault}")
