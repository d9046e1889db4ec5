"""The API versions that brokers offer, and which of these brokers this software supports."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.errors import UnsupportedBroker

OLDEST_BROKER = "2.8"


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


#: The version of each that is sent: a broker must offer it.
_NEEDED_APIS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
}


def refuse_old_brokers(alias: str, offered: Mapping[int, tuple[int, int]]) -> None:
    """``offered``: api key -> (oldest, newest) version, as a broker lists them. Raises :class:`UnsupportedBroker`."""
    for api, needed in _NEEDED_APIS.items():
        oldest, newest = offered.get(api, (0, -1))
        if newest < needed:
            raise UnsupportedBroker(
                f"cluster {alias} runs brokers older than Kafka {OLDEST_BROKER} "
                f"(request type {api} ends at version {newest}, {needed} is needed); upgrade them"
            )
        if oldest > needed:
            raise UnsupportedBroker(
                f"cluster {alias} runs brokers newer than this software knows "
                f"(request type {api} begins at version {oldest}, {needed} is needed); upgrade this software"
            )
