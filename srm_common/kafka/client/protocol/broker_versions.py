"""The API versions that brokers offer, and which of these brokers this software supports."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.errors import UnsupportedBroker
from srm_common.wire.protocol import fetch


class ApiKey:
    """The numbers of request types, by which brokers list the versions that they offer (Kafka's ``ApiKeys``)."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    LIST_GROUPS = 16
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    DESCRIBE_ACLS = 29
    DESCRIBE_QUORUM = 55


#: The versions of which a broker must know one to be read from: leaders' epochs that can be relied on (KAFKA-9212), and
#: replicas near the reader (KIP-392).
_READ = {"Metadata": (ApiKey.METADATA, 9, 13), "Fetch": (ApiKey.FETCH, fetch.OLDEST_VERSION, fetch.VERSION_BY_NAME)}
#: And those to be written to: what the transactions of slots are made of.
_WRITTEN = {
    "Fetch": (ApiKey.FETCH, fetch.VERSION_BY_NAME, fetch.VERSION_BY_NAME),
    "Produce": (ApiKey.PRODUCE, 9, 9),
    "InitProducerId": (ApiKey.INIT_PRODUCER_ID, 4, 4),
    "AddPartitionsToTxn": (ApiKey.ADD_PARTITIONS_TO_TXN, 3, 3),
    "EndTxn": (ApiKey.END_TXN, 3, 3),
}
#: The releases of Kafka that have all of these.
OLDEST_SOURCE, OLDEST_TARGET = "2.4", "2.8"

Offered = Mapping[int, tuple[int, int]]
"""API key -> (oldest, newest) version, as a broker lists them."""


def version_fault(kind: str, api: int, version: int, offered: Offered) -> str:
    """Why a broker does not take this version of a request: what follows the broker in a sentence; empty if it does.

    Args:
        kind: the request's name, or that of its class.
    """
    oldest, newest = offered.get(api, (0, -1))
    if oldest <= version <= newest:
        return ""
    name = kind.removeprefix("Raw").removesuffix("Request")
    if newest < 0:
        return f"does not know {name}"
    if newest < version:
        return f"takes {name} only up to version {newest}, and {version} is needed"
    return f"takes {name} only from version {oldest} on, and this software knows {version}"


def refuse_old_brokers(alias: str, offered: Offered, *, only_read: bool) -> None:
    """Raises :class:`UnsupportedBroker`.

    Args:
        only_read: whether the cluster is a flow's source.
    """
    role, release = ("a source", OLDEST_SOURCE) if only_read else ("a target", OLDEST_TARGET)
    for name, (api, least, most) in (_READ if only_read else _WRITTEN).items():
        oldest, newest = offered.get(api, (0, -1))
        fault = version_fault(name, api, max(least, min(newest, most)), offered)
        if fault:
            remedy = f"{role} needs Kafka {release} or later, upgrade it"
            if oldest > most:
                remedy = "upgrade this software"
            raise UnsupportedBroker(f"cluster {alias} cannot be used: a broker {fault}; {remedy}")
