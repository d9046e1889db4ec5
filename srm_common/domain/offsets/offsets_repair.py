"""Source offsets rebuilt from the offset map, with the proof that each is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srm_common.domain.offsets.segments import Segment


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """What the target has of one partition: the end of its log, and how many visible records lie behind the map."""

    log_end: int
    records_behind_map: int


@dataclass(frozen=True, slots=True)
class RepairAction:
    """One partition. ``next_offset`` is what is to be committed, None where nothing can be proved."""

    topic: str
    partition: int
    next_offset: int | None
    proof: str

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "next_offset": self.next_offset,
            "proof": self.proof,
        }


def repair_action(last: Segment, end: CopyEnd | str) -> RepairAction:
    """What the map says of one partition, held against its copy.

    Args:
        last: where the partition's map ends.
        end: the copy, or why it could not be looked at.
    """
    map_says = f"the map ends with upstream {last.upstream_end - 1} at downstream {last.downstream_end - 1}"

    def refuse(reason: str) -> RepairAction:
        return RepairAction(last.topic, last.partition, None, f"{map_says}, but {reason}")

    if isinstance(end, str):
        return refuse(end)
    if end.log_end < last.downstream_end:
        return refuse(f"the copy ends at {end.log_end}: records that were copied are gone")
    if end.records_behind_map:
        return refuse(f"the copy has {end.records_behind_map} or more records behind that, which something else wrote")
    return RepairAction(
        last.topic,
        last.partition,
        last.upstream_end,
        f"{map_says}, and the copy has no record behind that (its log ends at {end.log_end})",
    )
