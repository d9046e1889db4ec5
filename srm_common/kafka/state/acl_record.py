"""The bindings that a flow created on the target: one record in ``srm-flow-state.<source>.internal``.

It is written before bindings are created and after they are deleted, so that a crash in between leaves a record
without a binding, and never a binding without a record.
"""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.access.acls import AclBinding
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.topics.state_topics import state_topics
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.admin_client import SharedAdmin
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.state_topics import ensure_topics

_KEY = "acls"


def read_acl_record(flow: FlowSettings, state: FlowState) -> frozenset[AclBinding]:
    """The bindings that ``flow`` made, or was about to make.

    Raises:
        CorruptRecord: the record cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    found = state.read(_KEY)
    try:
        return frozenset(AclBinding.from_json(parts) for parts in (found or {}).get("bindings", ()))
    except (AttributeError, TypeError, ValueError) as error:
        raise CorruptRecord(
            f"'{_KEY}' in {names.flow_state_topic(flow.name.source)} on cluster '{flow.target.alias}' cannot be read; "
            f"after a tombstone with that key the flow's bindings there count as created by others"
        ) from error


def write_acl_record(
    flow: FlowSettings, state: FlowState, bindings: Iterable[AclBinding], *, admin: SharedAdmin | None = None
) -> None:
    """Replace the record; returns when all in-sync replicas have it. Creates the state topic where it is missing.

    Raises:
        StateTopicInvalid, UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    name = names.flow_state_topic(flow.name.source)
    topics = [topic for topic in state_topics(flow) if topic.name == name]
    ensure_topics(flow.target, topics, timeout_seconds=flow.request_seconds, admin=admin)
    state.write(_KEY, {"bindings": [one.to_json() for one in sorted(bindings)]})
