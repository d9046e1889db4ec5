"""Which brokers this software can work with."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.errors import UnsupportedBroker

OLDEST_BROKER = "2.8"
#: api key -> lowest newest-version a broker must offer: Produce 9, Fetch 12, InitProducerId 4, AddPartitionsToTxn 3.
_NEEDED_APIS = {0: 9, 1: 12, 22: 4, 24: 3, 26: 3}


def refuse_old_brokers(alias: str, offered: Mapping[int, tuple[int, int]]) -> None:
    """``offered``: api key -> (oldest, newest) version, as a broker tells them. Raises :class:`UnsupportedBroker`."""
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
