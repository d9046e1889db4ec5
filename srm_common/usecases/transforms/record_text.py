"""Records of a preview as people read them, in a terminal and on the page: bytes as text, JSON or hexadecimal digits,
cut where they are long."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from srm_common.domain.transforms.formats import Side
from srm_common.usecases.transforms.transform_preview import Outcome, Previewed, ShownRecord

if TYPE_CHECKING:
    from srm_common.usecases.transforms.trial_schemas import TrialSchemas

#: Bytes of a key, value or header that are shown unless the caller wants fewer.
MOST_BYTES = 65_536
#: Headers of a record that are shown.
MOST_HEADERS = 100
#: More control characters and bytes that are not UTF-8 than this part of the text: it is not text.
_STRANGE = 0.3


@dataclass(frozen=True, slots=True)
class PartText:
    """A key, value or header.

    Args:
        format: ``text``, ``json``, ``hex``, or one with schemas of a registry, such as ``avro``, shown as JSON.
        size: in bytes, of the whole.
        cut: whether ``text`` is only the beginning.
    """

    text: str
    format: str
    size: int
    cut: bool

    def within(self, width: int) -> str:
        """One cell of a table; if it is shortened, the actual size is shown."""
        if not self.cut and len(self.text) <= width:
            return self.text
        return f"{self.text[:width]}... ({self.size:,} bytes)"


def part_text(part: bytes | None, most_bytes: int = MOST_BYTES) -> PartText | None:
    """A key, value or header as text; None for null. Control characters, which a terminal would obey, and what is not
    UTF-8 are written as escapes; what is mostly that is written in hexadecimal digits."""
    if part is None:
        return None
    cut = len(part) > most_bytes
    shown = part[:most_bytes]
    text = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(shown, final=not cut)
    strange = (
        len(shown)
        - len(shown.decode("utf-8", "ignore").encode())
        + sum(one < 32 and one not in _SPACE for one in shown)
    )
    if strange > _STRANGE * len(shown):
        return PartText(f"0x{shown[: most_bytes // 2].hex()}", "hex", len(part), len(part) > most_bytes // 2)
    return PartText(_printable(text), "json" if not cut and _is_json(part) else "text", len(part), cut)


_SPACE = frozenset(b"\t\n\r")


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _is_json(part: bytes) -> bool:
    """An object or a list."""
    if part[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(part)
    except (ValueError, RecursionError):
        return False
    return True


class RecordTexts:
    """Texts of the records of a preview.

    Args:
        schemas: the preview's.
        values: with keys, values and headers. Reasons may quote them, so without them only the step is named.
        most_bytes: of a key, value or header.
    """

    def __init__(
        self, schemas: TrialSchemas | None = None, *, values: bool = True, most_bytes: int = MOST_BYTES
    ) -> None:
        self._schemas = schemas
        self._values = values
        self._most_bytes = most_bytes

    def key(self, record: ShownRecord, topic: str) -> PartText | None:
        """None for null. ``topic`` is that of the source."""
        return self._part(record.key, topic, Side.KEY)

    def value(self, record: ShownRecord, topic: str) -> PartText | None:
        """None for null. ``topic`` is that of the source."""
        return self._part(record.value, topic, Side.VALUE)

    def _part(self, part: bytes | None, topic: str, side: Side) -> PartText | None:
        data = None if part is None or self._schemas is None else self._schemas.read(topic, side, part)
        if part is None or data is None:
            return part_text(part, self._most_bytes)
        text = _printable(data.text)
        return PartText(text[: self._most_bytes], data.format, len(part), len(text) > self._most_bytes)

    def to_json(self, one: Previewed) -> dict[str, Any]:
        """One record for ``-o json`` and the REST API."""
        return {
            "topic": one.topic,
            "partition": one.partition,
            "offset": one.offset,
            "before": self._record(one.before, one.topic) if self._values else None,
            "after": self._outcome(one, one.after),
            "other": None if one.other is None else self._outcome(one, one.other),
            "difference": one.difference or None,
        }

    def _outcome(self, one: Previewed, outcome: Outcome) -> dict[str, Any]:
        reason = outcome.reason if self._values or not outcome.reason else outcome.step or "transforms"
        return {
            "result": outcome.fate(one.before),
            "reason": reason or None,
            "record": None if outcome.record is None or not self._values else self._record(outcome.record, one.topic),
        }

    def _record(self, record: ShownRecord, topic: str) -> dict[str, Any]:
        """``key_bytes`` and ``value_bytes`` are the true sizes, null for null."""
        key, value = self.key(record, topic), self.value(record, topic)
        headers = [(name, part_text(part, self._most_bytes)) for name, part in record.headers[:MOST_HEADERS]]
        return {
            "timestamp_ms": record.timestamp_ms,
            "key": None if key is None else key.text,
            "key_format": None if key is None else key.format,
            "key_bytes": None if key is None else key.size,
            "value": None if value is None else value.text,
            "value_format": None if value is None else value.format,
            "value_bytes": None if value is None else value.size,
            "headers": [[_printable(name), None if part is None else part.text] for name, part in headers],
            "headers_count": len(record.headers),
        }


def headers_text(record: ShownRecord, width: int) -> str:
    """All headers of a record in one cell."""
    shown = ((_printable(name), part_text(part, width)) for name, part in record.headers[:MOST_HEADERS])
    text = ", ".join(f"{name}={'null' if part is None else part.within(width)}" for name, part in shown)
    if len(text) <= width:
        return text
    return f"{text[:width]}... ({len(record.headers)} headers)"
