"""The CSV files of ``kafka-consumer-groups.sh --reset-offsets --from-file``.

Without a header: ``topic,partition,offset`` for one group, ``group,topic,partition,offset`` for several. As in Kafka's
tool, the first line decides which of them the file has.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from srm_common.errors import ConfigError

_SHORT, _LONG = 3, 4
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where ``group`` is to go on: ``offset`` is the next record to read."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str = ""


def write_offsets_file(offsets: Iterable[GroupOffset], *, one_group: bool) -> str:
    """The file for these offsets; the short layout has no groups."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [*([] if one_group else [one.group]), one.topic, one.partition, one.offset] for one in offsets
    )
    return text.getvalue()


def parse_offsets_file(text: str, file: str, groups: Collection[str]) -> list[GroupOffset]:
    """The offsets in a file, in its order.

    Args:
        file: its name, for messages.
        groups: those that were asked for: exactly one where the file has the short layout; where it has the long one,
            lines of others are left out, and none asked for means all.

    Raises:
        ConfigError: a line cannot be read, or a partition comes twice; names file and line.
    """
    rows = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), 1) if row]
    if not rows:
        raise ConfigError("there are no offsets in it", file=file)
    columns = len(rows[0][1])
    if columns not in (_SHORT, _LONG):
        raise ConfigError(
            f"{columns} columns where topic,partition,offset or group,topic,partition,offset is expected",
            file=file,
            line=rows[0][0],
        )
    if columns == _SHORT and len(groups) != 1:
        raise ConfigError("the lines name no group; say which one is meant with --group G", file=file)
    found: dict[tuple[str, str, int], GroupOffset] = {}
    for line, row in rows:
        if len(row) != columns:
            raise ConfigError(f"{len(row)} columns, but the lines before have {columns}", file=file, line=line)
        group = next(iter(groups)) if columns == _SHORT else row[0]
        topic = row[-3].strip()
        if not group or not topic:
            raise ConfigError(f"the {'topic' if group else 'group'} is missing", file=file, line=line)
        partition, offset = _number(row[-2], "partition", file, line), _number(row[-1], "offset", file, line)
        if groups and group not in groups:
            continue
        place = group, topic, partition
        if place in found:
            raise ConfigError(f"{topic}-{partition} of group {group} comes twice", file=file, line=line)
        found[place] = GroupOffset(group, topic, partition, offset)
    missing = sorted(set(groups) - {one.group for one in found.values()})
    if missing:
        raise ConfigError(f"it has no offsets of group {missing[0]}", file=file)
    return list(found.values())


def _number(text: str, what: str, file: str, line: int) -> int:
    written = text.strip()
    if written.startswith("-") and written[1:].isdecimal():
        raise ConfigError(f"the {what} {written} is negative", file=file, line=line)
    if not (written.isascii() and written.isdecimal()) or int(written) > _LARGEST:
        raise ConfigError(f"the {what} '{written}' is no number", file=file, line=line)
    return int(written)
