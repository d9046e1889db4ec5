"""How a MirrorMaker 2 is called on its target: its Connect group, its source connector, and where it keeps offsets."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.flow import FlowName, names


@dataclass(frozen=True, slots=True)
class ConnectNames:
    """A dedicated MirrorMaker 2, and Streams Replication Manager, have the names of :meth:`dedicated`; connectors in a
    Connect cluster have those that somebody gave them."""

    group: str
    connector: str
    offsets_topic: str

    @classmethod
    def dedicated(cls, flow: FlowName) -> ConnectNames:
        return cls(f"{flow.source}-mm2", names.SOURCE_CONNECTOR, names.offsets_topic(flow.source))

    @property
    def task_id_prefix(self) -> str:
        """What the transactional ids of its tasks begin with; the task's number follows."""
        return f"{self.group}-{self.connector}-"
