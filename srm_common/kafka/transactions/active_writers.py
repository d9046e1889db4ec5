"""Other active writers to what a flow writes: open transactions of its ids, and MirrorMaker 2's workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from srm_common.domain.cluster import Client
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import ConnectNames, driver_transactional_id, task_transactional_id
from srm_common.errors import ClusterError, UnreachableCluster
from srm_common.kafka.client.library import ListGroupsRequest, ListTransactionsRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey

#: The first version of ListGroups that returns states.
_WITH_STATES = 4
#: For a check on which nothing depends.
_SHORT_MS = 3_000
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


def active_writers(
    flow: FlowSettings, mirror_maker: ConnectNames | None = None, *, pool: LinkPool | None = None
) -> list[str]:
    """One sentence for each sign that something is writing into the flow's copies.

    ``mirror_maker`` is one with names of its own; a dedicated MirrorMaker 2 is looked for in any case. Members of a
    Connect cluster's group are no sign: its workers stay when its connectors are stopped. A flow's own run leaves no
    sign here between two chunks: see :mod:`srm_common.kafka.state.driver_presence`. Brokers before Kafka 3.0 cannot
    list transactions.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    with ClusterLink(
        flow.target.of_client(Client.ADMIN), part="control", request_timeout_ms=flow.request_timeout_ms, pool=pool
    ) as link:

        async def ask() -> list[str]:
            await link.open()
            dedicated = ConnectNames.dedicated(flow.name)
            others = {dedicated, mirror_maker or dedicated}
            return await _transactions(flow, link, others) + await _workers(link, dedicated.group)

        return link.run(ask)


def mirror_maker_workers(flow: FlowSettings, *, pool: LinkPool | None = None) -> list[str]:
    """One sentence if workers of a dedicated MirrorMaker 2 are active on the flow; raises as :func:`active_writers`,
    but soon."""
    with ClusterLink(
        flow.target.of_client(Client.ADMIN),
        part="driver",
        request_timeout_ms=flow.request_timeout_ms,
        at_most_ms=_SHORT_MS,
        pool=pool,
    ) as link:

        async def ask() -> list[str]:
            await link.open()
            return await _workers(link, ConnectNames.dedicated(flow.name).group)

        return link.run(ask)


async def _transactions(flow: FlowSettings, link: ClusterLink, others: set[ConnectNames]) -> list[str]:
    if not link.offers(ApiKey.LIST_TRANSACTIONS):
        return []
    prefixes = {task_transactional_id(flow.name, 0)[:-1], *(other.task_id_prefix for other in others)}
    theirs = "|".join(f"{re.escape(prefix)}\\d+" for prefix in prefixes)
    ours = re.compile(f"{re.escape(driver_transactional_id(flow.name))}|{theirs}")
    seconds = flow.transaction_timeout_ms / 1000
    return [
        f"a transaction of '{state.transactional_id}' is open; if its producer has died, it ends within "
        f"{seconds:g} s: try again then"
        for answer in await _of_each_broker(
            link, lambda: ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=[])
        )
        for state in answer.transaction_states
        if state.transaction_state in _OPEN and ours.fullmatch(state.transactional_id)
    ]


async def _workers(link: ClusterLink, group: str) -> list[str]:
    """A dedicated MirrorMaker 2 works in the Connect group ``<source>-mm2`` of its target."""
    return [
        f"workers of MirrorMaker 2 are in group '{found.group_id}' ({found.group_state}); stop MirrorMaker 2 first"
        for answer in await _of_each_broker(link, lambda: ListGroupsRequest(version=_WITH_STATES, states_filter=[]))
        for found in answer.groups
        if found.group_id == group and found.group_state not in ("Empty", "Dead")
    ]


async def _of_each_broker(link: ClusterLink, make_request: Callable[[], Any]) -> list[Any]:
    answers = await link.ask_each(make_request)
    for node, answer in answers.items():
        if isinstance(answer, ClusterError):
            raise answer
        if isinstance(answer, RetriableFault):
            raise UnreachableCluster(f"cluster '{link.alias}' cannot list its active writers: {answer}") from answer
        if answer.error_code:
            raise UnreachableCluster(
                f"cluster '{link.alias}' cannot list its active writers: broker {node}: "
                f"{codes.name(answer.error_code)}; try again"
            )
    return list(answers.values())
