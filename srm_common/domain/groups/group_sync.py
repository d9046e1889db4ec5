"""Which translated offsets are committed for a group on the target (``sync.group.offsets.enabled``).

MirrorMaker 2 writes for every group that it does not remember as empty, and relies on the broker to refuse groups in
use. Here the state decides: only a group without members is written to, and never backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from srm_common.domain.offsets.checkpoints import Checkpoint

Partition = tuple[str, int]

#: Kafka's states of a group that nobody reads with; a group that does not exist is ``ABSENT``.
EMPTY, DEAD, ABSENT = "empty", "dead", "absent"


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """A group on the target: its state in Kafka's words, lower case, and the next offsets it would read."""

    state: str = ABSENT
    offsets: Mapping[Partition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSync:
    """What is done for one group: ``commit`` is written; ``there`` counts positions where the group stands already,
    ``beyond`` those that it has passed (it read on, or was rewound at the source) and is not moved back to;
    ``in_use`` is the state that forbids to write, None when nothing does."""

    group: str
    commit: tuple[Checkpoint, ...] = ()
    there: int = 0
    beyond: int = 0
    in_use: str | None = None


def sync_group(group: str, target: TargetGroup, checkpoints: Iterable[Checkpoint]) -> GroupSync:
    """``checkpoints`` are the group's newest, one a partition."""
    wanted = sorted(checkpoints, key=lambda one: (one.topic, one.partition))
    if target.state not in (EMPTY, DEAD, ABSENT):
        return GroupSync(group, in_use=target.state)
    found = [target.offsets.get((one.topic, one.partition), -1) for one in wanted]
    commit = tuple(one for one, offset in zip(wanted, found, strict=True) if offset < one.downstream)
    beyond = sum(offset > one.downstream for one, offset in zip(wanted, found, strict=True))
    return GroupSync(group, commit, there=len(wanted) - len(commit) - beyond, beyond=beyond)
