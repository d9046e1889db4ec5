"""Coordinators of consumer groups, and requests for many groups at a time (KIP-699 and KIP-709, Kafka 3.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from srm_common.kafka.client.library import OffsetFetchRequest
from srm_common.kafka.client.links.broker_link import BrokerLink
from srm_common.kafka.client.protocol.find_coordinator import GROUP, find_coordinator_request, found_coordinators

#: Keeps responses small: a group may have thousands of partitions.
GROUPS_PER_REQUEST = 500
_OFFSET_FETCH_VERSION = 8


class GroupCoordinators:
    """Node ids of coordinators by group, remembered until they are forgotten. Threads may share it."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}

    async def find(self, link: BrokerLink, groups: Iterable[str]) -> tuple[dict[int, list[str]], dict[str, int]]:
        """The groups by the node id of their coordinator, and the error codes of those that have none now.

        Raises:
            RetriableFault: no broker answered.
            AccessDenied: the login was refused.
        """
        known = {group: self._nodes.get(group) for group in groups}

        async def look_up(keys: Sequence[str]) -> list[tuple[str, Any]]:
            answer = await link.ask_any(lambda: find_coordinator_request(keys, GROUP))
            return [*found_coordinators(answer, keys)]

        missing = [group for group, node in known.items() if node is None]
        refused: dict[str, int] = {}
        size = GROUPS_PER_REQUEST
        while missing:
            left = dict.fromkeys(missing)
            for future in [link.loop.call_soon_with_future(look_up, part) for part in in_parts(missing, size)]:
                for group, found in await future:
                    left.pop(group, None)
                    if found.error_code:
                        refused[group] = found.error_code
                    else:
                        known[group] = self._nodes[group] = found.node_id
            # Those that a broker before 3.0 was asked about with others.
            missing, size = [*left] if size > 1 else [], 1
        by_node: dict[int, list[str]] = defaultdict(list)
        for group, node in known.items():
            if node is not None:
                by_node[node].append(group)
        return by_node, refused

    def forget(self, groups: Iterable[str]) -> None:
        """Their coordinator moved, or does not respond: look it up again at the next use."""
        for group in groups:
            self._nodes.pop(group, None)

    def clear(self) -> None:
        self._nodes.clear()


def offset_fetch_request(groups: Iterable[str]) -> Any:
    """All committed offsets of each group; not known to brokers before 3.0 (OlderBroker)."""
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        version=_OFFSET_FETCH_VERSION,
        groups=[kind(group_id=group, topics=None) for group in groups],
        require_stable=False,
    )


def in_parts(groups: Sequence[str], size: int = GROUPS_PER_REQUEST) -> list[Sequence[str]]:
    return [groups[at : at + size] for at in range(0, len(groups), size)]


def in_halves(groups: Sequence[str]) -> list[Sequence[str]]:
    return in_parts(groups, (len(groups) + 1) // 2)
