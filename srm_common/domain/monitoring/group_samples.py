"""Samples of groups, as the flow's state keeps them between rounds of checkpoints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any

from srm_common.domain.amount import counted
from srm_common.domain.monitoring.run_report import GroupSample, TopicGroups
from srm_common.domain.offsets.checkpoints import Untranslated

#: The key in the flow's state.
KEY = "groups"
#: Enough for a page; a record has to fit into a message.
_ROWS = 5_000
_COLUMNS = tuple(field.name for field in fields(GroupSample))


@dataclass(frozen=True, slots=True)
class CheckpointRound:
    """What one round of checkpoints found out about groups.

    ``positions`` by group, ``untranslated`` those without a place on the target. ``latencies_ms`` of the groups that
    got a checkpoint at ``at_ms``. ``topics``: groups with a position, by upstream topic; those that got a checkpoint
    for it are in ``checkpointed``, as (group, topic). ``synced`` are the groups whose offsets are committed on the
    target, None where that was not due.
    """

    at_ms: int
    positions: Mapping[str, int]
    untranslated: Sequence[Untranslated]
    latencies_ms: Mapping[str, float]
    synced: Collection[str] | None = None
    topics: Mapping[str, Collection[str]] = field(default_factory=dict)
    checkpointed: Collection[tuple[str, str]] = ()

    def topic_groups(self, before: Iterable[TopicGroups] | None) -> list[TopicGroups]:
        """Each topic with a position, sorted; what this round does not tell is as in ``before``."""
        known = {one.topic: one for one in before or ()}
        out = []
        for topic, groups in sorted(self.topics.items()):
            found = [self.latencies_ms[group] for group in groups if (group, topic) in self.checkpointed]
            if found:
                figures = (round(figure, 1) for figure in (min(found), max(found), sum(found)))
                out.append(TopicGroups(topic, len(groups), len(found), self.at_ms, *figures))
            else:
                out.append(replace(known.get(topic, TopicGroups(topic, 0)), groups=len(groups)))
        return out

    def samples(self, before: Iterable[GroupSample]) -> list[GroupSample]:
        """Each group with a position; what this round does not tell is as in ``before``, the samples of the last."""
        missing: dict[str, list[Untranslated]] = defaultdict(list)
        for row in self.untranslated:
            missing[row.group].append(row)
        known = {one.group: one for one in before}
        nothing = GroupSample("", 0, 0)
        out = []
        for group, positions in self.positions.items():
            last, rows = known.get(group, nothing), missing.get(group, [])
            latency = self.latencies_ms.get(group)
            out.append(
                GroupSample(
                    group=group,
                    positions=positions,
                    translated=max(0, positions - len(rows)),
                    reason=_reason(rows),
                    synced=last.synced if self.synced is None else group in self.synced,
                    checkpoint_latency_ms=last.checkpoint_latency_ms if latency is None else round(latency, 1),
                    checkpoint_ms=last.checkpoint_ms if latency is None else self.at_ms,
                )
            )
        return out


def _reason(rows: Sequence[Untranslated]) -> str | None:
    if not rows:
        return None
    first = rows[0]
    place = f"{first.topic}-{first.partition}"
    if len(rows) == 1:
        return f"{place}: {first.reason}"
    return f"{counted(len(rows), 'position')} without a place, the first {place}: {first.reason}"


def groups_record(samples: Iterable[GroupSample], topics: Iterable[TopicGroups] = ()) -> dict[str, Any]:
    """Plain values; groups that are not translated completely come first when there are more than 5,000."""
    rows = sorted(samples, key=lambda one: (one.translated >= one.positions, one.group))
    return {
        "columns": list(_COLUMNS),
        "rows": [list(astuple(one)) for one in rows[:_ROWS]],
        "left_out": max(0, len(rows) - _ROWS),
        "topics": [list(astuple(one)) for one in topics],
    }


def groups_from(record: Any) -> tuple[GroupSample, ...]:
    """The samples in a record; none where there is no record, or one of another form."""
    try:
        return tuple(
            GroupSample(**{name: cell for name, cell in zip(record["columns"], row, strict=True) if name in _COLUMNS})
            for row in record["rows"]
        )
    except (KeyError, TypeError, ValueError):
        return ()


def topics_from(record: Any) -> tuple[TopicGroups, ...] | None:
    """The topics in a record; None where there is no record, or one that does not tell of topics."""
    try:
        return tuple(map(TopicGroups.of_row, record["topics"]))
    except (KeyError, TypeError, ValueError):
        return None
