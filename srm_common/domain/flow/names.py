"""Names that a flow uses: topics, transactional ids, DAG tags; and those of a MirrorMaker 2 on its target.

Those that MirrorMaker 2 has too are spelled as it spells them, so that either can take over from the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from srm_common.domain.flow.settings import FlowName, FlowSettings
from srm_common.domain.policy import HEARTBEATS

META_TOPIC = "srm-meta.internal"
CONTROL_TOPIC = "srm-control.internal"
SERVICES_TOPIC = "srm-services.internal"
SOURCE_CONNECTOR = "MirrorSourceConnector"


def offsets_topic(source_alias: str) -> str:
    """Connect's source offsets; always literal dots, whatever the policy's separator is."""
    return f"mm2-offsets.{source_alias}.internal"


def configs_topic(source_alias: str) -> str:
    return f"mm2-configs.{source_alias}.internal"


def status_topic(source_alias: str) -> str:
    return f"mm2-status.{source_alias}.internal"


def segments_topic(source_alias: str) -> str:
    """The exact offset map."""
    return f"mm2-offset-segments.{source_alias}.internal"


def flow_state_topic(source_alias: str) -> str:
    """Run record, slot count, last plan and decisions."""
    return f"srm-flow-state.{source_alias}.internal"


def metrics_topic(source_alias: str) -> str:
    """Raw metrics of each run."""
    return f"srm-metrics.{source_alias}.internal"


def heartbeats_topic() -> str:
    """Never affected by a separator."""
    return HEARTBEATS


def checkpoints_topic(flow: FlowSettings) -> str:
    """On the target."""
    return flow.policy.checkpoints_topic(flow.name.source)


def offset_syncs_topic(flow: FlowSettings, location: Literal["source", "target"] | None = None) -> str:
    """The alias inside the name is the one of the cluster that does *not* host the topic.

    ``location`` defaults to the flow's ``offset-syncs.topic.location``.
    """
    where = flow.offset_syncs_topic_location if location is None else location
    return flow.policy.offset_syncs_topic(flow.name.target if where == "source" else flow.name.source)


def task_transactional_id(flow: FlowName, slot: int) -> str:
    """The id of MirrorMaker 2's own task of that number, so that both fence each other."""
    return f"{flow.source}-mm2-{SOURCE_CONNECTOR}-{slot}"


def driver_transactional_id(flow: FlowName) -> str:
    return f"srm.{flow}.driver"


#: Of every flow's DAG.
FLOW_TAG = "srm"
#: Of the DAG of a flow whose keys are wrong; its description is the sentence that says so.
MISCONFIGURED_TAG = "srm:misconfigured"
_SOURCE, _TARGET = "source:", "target:"


def tags_of(flow: FlowName) -> tuple[str, ...]:
    return FLOW_TAG, f"{_SOURCE}{flow.source}", f"{_TARGET}{flow.target}"


def flow_of(tags: Collection[str]) -> FlowName | None:
    """The flow of a DAG with these tags, None for a DAG of something else."""
    source = next((tag.removeprefix(_SOURCE) for tag in tags if tag.startswith(_SOURCE)), None)
    target = next((tag.removeprefix(_TARGET) for tag in tags if tag.startswith(_TARGET)), None)
    return FlowName(source, target) if FLOW_TAG in tags and source and target else None


@dataclass(frozen=True, slots=True)
class ConnectNames:
    """A dedicated MirrorMaker 2, and Streams Replication Manager, have the names of :meth:`dedicated`; connectors in a
    Connect cluster have their own."""

    group: str
    connector: str
    offsets_topic: str

    @classmethod
    def dedicated(cls, flow: FlowName) -> ConnectNames:
        return cls(f"{flow.source}-mm2", SOURCE_CONNECTOR, offsets_topic(flow.source))

    @property
    def task_id_prefix(self) -> str:
        """What the transactional ids of its tasks begin with; the task's number follows."""
        return f"{self.group}-{self.connector}-"
