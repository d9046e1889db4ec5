"""Manual edits of committed source offsets: the change, its consequences, and why it may be refused.

An offset here is always the next one to copy. MirrorMaker 2's record holds the last one copied.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.topic_id import is_another_topic
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import Pin, SourceTopics
from srm_common.errors import ConfigError

_COLUMNS = ("topic", "partition", "offset")
#: Of a number of 64 bits.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class LogRange:
    """A partition's log at the source: offsets ``start`` to ``end`` (exclusive)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class OffsetEdit:
    """One partition. ``before`` and ``after`` are next offsets to copy, None for "no position"; ``problem`` says why
    it cannot be done. ``epoch`` is the leader epoch of the offset before ``after``, -1 where it is not known.
    ``other_log``: ``before`` is a position in a log that is not there any more, cut and grown again or of a topic that
    was created again."""

    topic: str
    partition: int
    before: int | None
    after: int | None
    log: LogRange | None = None
    problem: str | None = None
    epoch: int = -1
    other_log: bool = False

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def changes(self) -> bool:
        return self.problem is None and (self.before != self.after or (self.other_log and self.after is not None))

    @property
    def effect(self) -> str:
        """What the next run does about it, in words."""
        if self.problem is not None:
            return self.problem
        if not self.changes:
            return "as it is"
        if self.before == self.after:
            return f"stays at {self.after}, now in the log that replaced the copied one"
        if self.after is None:
            return "forgotten: the next run starts it like a partition without progress"
        if self.before is None:
            return f"starts at {self.after}"
        distance = self.after - self.before
        if distance < 0:
            return f"goes back by {-distance} offsets: the next run copies them after the end of the copy"
        return f"leaves {distance} offsets out"

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "before": self.before,
            "after": self.after,
            "log_start": None if self.log is None else self.log.start,
            "log_end": None if self.log is None else self.log.end,
            "effect": self.effect,
            "problem": self.problem,
        }


def offset_edit(place: TopicPartition, before: int | None, after: int | None, log: LogRange | str | None) -> OffsetEdit:
    """Judge one edit.

    Args:
        after: the next offset to copy, None to forget the position.
        log: the partition's log, a sentence when it cannot be looked at; None is allowed where ``after`` is None.
    """
    if after is None:
        return OffsetEdit(*place, before, None, log if isinstance(log, LogRange) else None)
    if not isinstance(log, LogRange):
        return OffsetEdit(*place, before, after, None, log or "the source has no such partition")
    if not log.start <= after <= log.end:
        problem = f"offset {after} is not in the log, which has the offsets {log.start} to {log.end}"
        return OffsetEdit(*place, before, after, log, problem)
    return OffsetEdit(*place, before, after, log)


def refuse_parts_of_new_topics(
    edits: Iterable[OffsetEdit],
    memory: SourceTopics,
    ids: Mapping[str, str | None],
    committed: Iterable[TopicPartition],
) -> list[OffsetEdit]:
    """Edits of a topic that was created again count only for all its partitions that have a position.

    The others' positions belong to the former topic; used for the new one, they would skip records.
    """
    edits = list(edits)
    edited = {edit.place for edit in edits}
    left: dict[str, list[int]] = {}
    for topic, partition in committed:
        if (topic, partition) not in edited:
            left.setdefault(topic, []).append(partition)
    out = []
    for edit in edits:
        known, now = memory.topic_id(edit.topic), ids.get(edit.topic)
        if edit.problem is None and edit.topic in left and is_another_topic(known, now):
            others = ", ".join(map(str, sorted(left[edit.topic])))
            problem = f"the topic was created again at the source: move all its partitions at once, also {others}"
            edit = OffsetEdit(edit.topic, edit.partition, edit.before, edit.after, edit.log, problem)
        out.append(edit)
    return out


def with_identity(
    edits: Iterable[OffsetEdit],
    epochs: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    memory: SourceTopics,
    ids: Mapping[str, str | None],
) -> list[OffsetEdit]:
    """The edits, with what distinguishes today's logs from those that were copied.

    Args:
        epochs: of the offsets before those to be set, in the logs of today.
        committed: the epochs of the offsets before the positions.
        ids: of the topics today.
    """
    out = []
    for edit in edits:
        epoch, before = epochs.get(edit.place, -1), committed.get(edit.place, -1)
        known, now = memory.topic_id(edit.topic), ids.get(edit.topic)
        cut = edit.before == edit.after and min(epoch, before) >= 0 and epoch != before
        out.append(replace(edit, epoch=epoch, other_log=cut or is_another_topic(known, now)))
    return out


def edited_memory(memory: SourceTopics, edits: Iterable[OffsetEdit], ids: Mapping[str, str | None]) -> SourceTopics:
    """What the flow remembers after the edits: no pin overrides what was set, and offset 0 holds by one.

    MirrorMaker 2 has no way to write "next is 0" but to write nothing.
    """
    edits = [edit for edit in edits if edit.problem is None]
    memory = memory.without_pins({edit.place for edit in edits})
    memory = memory.with_pins({edit.place: Pin(0, None) for edit in edits if edit.after == 0})
    set_topics = {edit.topic for edit in edits if edit.after is not None}
    return memory.with_ids({topic: ids.get(topic) for topic in set_topics if memory.topic_id(topic) is not None})


def parse_offsets_file(text: str, name: str) -> dict[TopicPartition, int]:
    """Read a table of offsets: CSV with the columns topic, partition, offset (a header line is optional), or JSON, a
    list of objects with these keys, or what ``source-offsets list --output json`` prints.

    Raises :class:`ConfigError` that names the line or entry.
    """
    rows = _json_rows(text, name) if text.lstrip().startswith(("[", "{")) else _csv_rows(text, name)
    found: dict[TopicPartition, int] = {}
    for where, topic, partition, offset in rows:
        numbers = [_number(number) for number in (partition, offset)]
        if not isinstance(topic, str) or not topic or None in numbers:
            raise ConfigError(
                f"{where} is not a topic, a partition and an offset: {topic!r}, {partition!r}, {offset!r}", file=name
            )
        place = TopicPartition(topic, numbers[0] or 0)
        if place in found:
            raise ConfigError(f"{where} names {topic}-{place[1]} twice", file=name)
        found[place] = numbers[1] or 0
    if not found:
        raise ConfigError("the file contains no offsets", file=name)
    return found


def _number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    text = str(value).strip()
    known = isinstance(value, str) and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if known else None


def _csv_rows(text: str, name: str) -> Iterable[tuple[str, Any, Any, Any]]:
    try:
        rows = list(csv.reader(io.StringIO(text.lstrip("\ufeff"))))
    except csv.Error as error:
        raise ConfigError(f"the file is not CSV: {error}", file=name) from None
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#") or (number == 1 and tuple(map(str.lower, cells)) == _COLUMNS):
            continue
        if len(cells) != len(_COLUMNS):
            raise ConfigError(f"line {number} has {len(cells)} columns; topic,partition,offset are needed", file=name)
        yield f"line {number}", cells[0], cells[1], cells[2]


def _json_rows(text: str, name: str) -> Iterable[tuple[str, Any, Any, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the file is not JSON: {error}", file=name) from None
    entries = document.get("offsets") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise ConfigError("the file is not a list of objects with topic, partition and offset", file=name)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not set(_COLUMNS) <= entry.keys():
            raise ConfigError(f"entry {number} is not an object with topic, partition and offset", file=name)
        if entry["offset"] is not None:  # a partition that was listed without a position
            yield f"entry {number}", entry["topic"], entry["partition"], entry["offset"]


# Source offsets rebuilt from the offset map, with the proof that each is right.


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """One partition on the target: the end of its log, and how many visible records follow the end of the map."""

    log_end: int
    records_behind_map: int


@dataclass(frozen=True, slots=True)
class RepairAction:
    """One partition. ``next_offset`` is to be committed, None if nothing can be proved."""

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


def is_outdated(committed: CopiedTo | None, last: Segment) -> bool:
    """Whether the map has a chunk that came after what is committed: both are written by the same transactions.

    Args:
        committed: what the flow has copied by its source offset; None where there is no offset.
        last: where the partition's map ends.
    """
    if committed is None:
        return True
    return last.upstream_end > committed.upstream_end and last.downstream_start >= committed.downstream_end


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
        return refuse(f"the copy has {end.records_behind_map} or more records after that, which another writer wrote")
    return RepairAction(
        last.topic,
        last.partition,
        last.upstream_end,
        f"{map_says}, and the copy has no record after that (its log ends at {end.log_end})",
    )
