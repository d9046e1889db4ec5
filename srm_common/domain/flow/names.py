"""Names that a flow uses: topics, transactional ids, DAG tags; and names that MirrorMaker 2 uses on its target.

Those that MirrorMaker 2 has too are spelled as it spells them, so that either can take over from the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from srm_common.domain.flow.flow_name import FlowName
from srm_common.domain.flow.settings import FlowSettings
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
    """What a flow remembers besides its progress, by :class:`StateKey`."""
    return f"srm-flow-state.{source_alias}.internal"


def source_of_state(topic: str) -> str | None:
    """The source of the flow whose :func:`flow_state_topic` it is; None for another topic."""
    before, after = flow_state_topic("\n").split("\n")
    named = topic.startswith(before) and topic.endswith(after) and len(topic) > len(before) + len(after)
    return topic[len(before) : -len(after)] if named else None


class StateKey(StrEnum):
    """The keys of :func:`flow_state_topic`, by what their records hold."""

    RUN = "run"
    """The newest run: :class:`srm_common.domain.runs.run_record.RunRecord`."""
    START = "start"
    """Where a run was told to start, its id, and the partitions that it could not start there yet."""
    SLOTS = "slots"
    """The highest number of slots that any run had."""
    SIZES = "sizes"
    """Bytes of a record, by upstream topic."""
    TOPICS = "topics"
    """Source topics as they were seen: :class:`srm_common.domain.topics.source_topics.SourceTopics`."""
    DRIVER = "driver "
    """What the keys of active runs begin with."""
    INSTALLATION = "installation"
    """Which installation ran the flow last."""
    REFRESH = "refresh"
    """When topics were refreshed: :class:`srm_common.domain.topics.refresh_memory.RefreshMemory`."""
    DECISIONS = "decisions"
    """Which topics are copied, and why others are not."""
    PLAN = "plan"
    """The newest plan, with results."""
    ACLS = "acls"
    """Bindings that the flow made on the target."""
    IMPORTING = "schemas.importing"
    """Subjects that are in mode IMPORT for the time of a registration, with the mode that each had."""
    CHECKPOINTS = "checkpoints"
    """How far rounds of checkpoints have read: :class:`srm_common.domain.offsets.checkpoints.CheckpointMemory`."""
    GROUPS = "groups"
    """Samples of consumer groups, of the newest round of checkpoints."""
    UNTRANSLATED = "untranslated"
    """Positions of groups that have no translation, and groups of other kinds."""
    FOREIGN = "foreign"
    """The result of the newest search for records of other writers in the copies, a sentence."""
    VERIFICATION = "verification"
    """The newest verification: :class:`srm_common.domain.verification.summary.VerificationSummary`."""
    VERIFIED = "verified "
    """What the keys begin with of the newest results of a topic's partitions, by the topic's name at the source."""
    RECORD = "record "
    """What the keys begin with of the flow's records of ``srm-meta.internal``, by the topic's name at the source: what
    is lost there is restored from here."""
    MOVE = "move"
    """The newest move of groups along the flow: :class:`srm_common.domain.moving.moves.MoveReport`."""


def metrics_topic(source_alias: str) -> str:
    """Raw metrics of each run."""
    return f"srm-metrics.{source_alias}.internal"


def heartbeats_topic() -> str:
    """Never affected by a separator."""
    return HEARTBEATS


def has_heartbeats(flow: FlowSettings, topic: str) -> bool:
    """Whether a topic of the source has heartbeats: its own ones, or those that came there from cluster to cluster, as
    ``c.heartbeats`` did.

    A policy knows names only, so it takes a user's ``device.heartbeats`` for such a copy. Heartbeats are copied without
    transforms: data must never pass for them, so each alias in the name has to be a known one, and no cluster comes
    twice.
    """
    policy, source = flow.policy, flow.name.source
    if not policy.is_heartbeats_topic(topic):
        return False
    unseen = {*flow.aliases, *(alias for one in flow.graph for alias in (one.name.source, one.name.target))} - {source}
    while topic != policy.heartbeats_topic():
        alias, upstream = policy.topic_source(topic), policy.upstream_topic(topic)
        if alias is None or upstream is None or alias not in unseen:
            return False
        unseen.discard(alias)
        topic = upstream
    return True


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
