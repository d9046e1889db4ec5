"""Groups that read topics but are not consumer groups: share groups and streams groups.

confluent-kafka lists consumer groups only, so these are asked for over kafka-python. Their offsets are not translated:
a share group (KIP-932) has a start offset for each partition and delivery states of single records behind it, which
neither client can ask for; a streams group (KIP-1071) is refused to clients that do not speak its protocol.
"""

from __future__ import annotations

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.errors import ClusterError
from srm_common.kafka.client import codes
from srm_common.kafka.client.library import ListGroupsRequest
from srm_common.kafka.client.link import ClusterLink, RetriableFault
from srm_common.kafka.groups.group_offsets import Group, GroupFault

#: The response has states; the kind of group follows from the protocol type, which every version has. Since Kafka 2.8.
_LIST_GROUPS_VERSION = 4
_KINDS = ("share", "streams")


def other_groups(cluster: ClusterSettings, *, timeout_seconds: float = 30.0) -> tuple[list[Group], list[GroupFault]]:
    """Such groups by name, ``protocol`` being the kind; what some broker could not list is a fault.

    Raises:
        UnreachableCluster, AccessDenied, UnsupportedBroker: as the cluster answers.
    """
    with ClusterLink(
        cluster.of_client(Client.ADMIN), part="groups", request_timeout_ms=int(timeout_seconds * 1000)
    ) as link:
        return link.run(lambda: _listed(link, timeout_seconds))


async def _listed(link: ClusterLink, timeout_seconds: float) -> tuple[list[Group], list[GroupFault]]:
    await link.open(timeout_seconds=timeout_seconds)
    found: list[Group] = []
    faults: list[GroupFault] = []
    answers = await link.ask_each(lambda: ListGroupsRequest(version=_LIST_GROUPS_VERSION, states_filter=[]))
    for node, answer in answers.items():
        doing = f"cluster '{link.alias}' could not list the groups of broker {node}"
        if isinstance(answer, (RetriableFault, ClusterError)):
            faults.append(GroupFault("", f"{doing}: {answer}"))
            continue
        # A coordinator that is loading answers what it knows.
        if answer.error_code not in (codes.NONE, *codes.COORDINATOR_MOVES):
            faults.append(GroupFault("", f"{doing}: {codes.name(answer.error_code)}"))
        found += [
            Group(one.group_id, one.group_state.lower(), one.protocol_type)
            for one in answer.groups
            if one.protocol_type in _KINDS
        ]
    return sorted(found, key=lambda group: group.name), faults
