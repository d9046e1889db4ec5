"""Other active writers to what a flow writes: open transactions of its ids, and MirrorMaker 2's workers."""

from __future__ import annotations

import re
import time

from srm_common.domain.cluster import Client
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import ConnectNames, driver_transactional_id, task_transactional_id
from srm_common.domain.flow.principals import Right
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.client.library import DescribeGroupsRequest, ListGroupsRequest
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.coordinators import answers_of_all, transaction_states

#: The first version of ListGroups that returns states; the last of DescribeGroups in which a group that does not exist
#: is dead.
_WITH_STATES, _DESCRIBED = 4, 5
#: For a check on which nothing depends.
_SHORT_MS = 3_000
_ENDING = ("PrepareCommit", "PrepareAbort")
_PAUSE_SECONDS = 0.1


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
            found = await _transactions(flow, link, others)
            # Where another task must not fail for want of this right, what can be seen has to do.
            must_see = mirror_maker == dedicated
            return found + await _workers(link, dedicated.group, flow.patience_seconds, must_see=must_see)

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
            return await _workers(link, ConnectNames.dedicated(flow.name).group, _SHORT_MS / 1000, must_see=True)

        return link.run(ask)


async def _transactions(flow: FlowSettings, link: ClusterLink, others: set[ConnectNames]) -> list[str]:
    own = driver_transactional_id(flow.name)
    prefixes = {task_transactional_id(flow.name, 0)[:-1], *(other.task_id_prefix for other in others)}
    theirs = re.compile("|".join(f"{re.escape(prefix)}\\d+" for prefix in prefixes))
    deadline = time.monotonic() + flow.patience_seconds
    while True:
        states = await transaction_states(link, deadline, _untold(link))
        # The last edit is committed; that its markers are not written everywhere yet is no sign of another writer.
        if states.get(own) not in _ENDING or time.monotonic() > deadline:
            break
        await link.loop.sleep(_PAUSE_SECONDS)
    seconds = flow.transaction_timeout_ms / 1000
    return [
        f"a transaction of '{name}' is open; if its producer has died, it ends within {seconds:g} s: try again then"
        for name, state in states.items()
        if state in ("Ongoing", *_ENDING) and (name == own or theirs.fullmatch(name))
    ]


async def _workers(link: ClusterLink, group: str, patience_seconds: float, *, must_see: bool) -> list[str]:
    """A dedicated MirrorMaker 2 works in the Connect group ``<source>-mm2`` of its target.

    ListGroups leaves out, without an error, what the principal may not describe, unless it may describe the cluster;
    DescribeGroups says so (``KafkaApis``).
    """
    deadline = time.monotonic() + patience_seconds
    states = {
        found.group_state
        for answer in await answers_of_all(
            link, lambda: ListGroupsRequest(version=_WITH_STATES, states_filter=[]), deadline, _untold(link)
        )
        for found in answer.groups
        if found.group_id == group
    }
    if not states and must_see:
        states = await _described_states(link, group, deadline)
    return [
        f"workers of MirrorMaker 2 are in group '{group}' ({state}); stop MirrorMaker 2 first"
        for state in sorted(states - {"Empty", "Dead"})
    ]


async def _described_states(link: ClusterLink, group: str, deadline: float) -> set[str]:
    """Asked of all brokers, not of the coordinator: whoever looks for it has it create ``__consumer_offsets``."""
    states = set()
    untold = f"cluster '{link.alias}' does not say whether workers of MirrorMaker 2 are in group '{group}'"
    for answer in await answers_of_all(
        link,
        lambda: DescribeGroupsRequest(max_version=_DESCRIBED, groups=[group], include_authorized_operations=False),
        deadline,
        _untold(link),
    ):
        for found in answer.groups:
            if found.error_code == codes.GROUP_AUTHORIZATION_FAILED:
                raise AccessDenied(f"{untold}: {Right('Describe', 'group', group).missing(link.settings)}")
            if found.error_code not in (codes.NONE, codes.NOT_COORDINATOR):
                raise UnreachableCluster(f"{untold}: {codes.name(found.error_code)}; try again")
            states.add(found.group_state or "Dead")
    return states


def _untold(link: ClusterLink) -> str:
    return f"cluster '{link.alias}' cannot list its active writers"
