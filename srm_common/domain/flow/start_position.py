"""Where partitions without progress start: start positions, and the rules that assign them to topics.

The rules: ``start.positions``, else ``auto.offset.reset``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from srm_common.domain.patterns.name_filter import PatternList, check_patterns, split_list
from srm_common.errors import ConfigError


class StartKind(StrEnum):
    COMMITTED = "committed"
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"
    OPPOSITE = "opposite"


#: Start positions that may be set for one run.
OF_RUNS = (StartKind.COMMITTED, StartKind.EARLIEST, StartKind.LATEST, StartKind.TIMESTAMP)
#: Where a partition without progress may start.
OF_RULES = (StartKind.EARLIEST, StartKind.LATEST, StartKind.TIMESTAMP, StartKind.OFFSETS, StartKind.OPPOSITE)
#: Where committed offsets may be moved to.
OF_EDITS = (StartKind.EARLIEST, StartKind.LATEST, StartKind.TIMESTAMP, StartKind.OPPOSITE)

#: Of a number of 64 bits.
_MOST_DIGITS = 19

_FORMS = {
    StartKind.COMMITTED: "committed",
    StartKind.EARLIEST: "earliest",
    StartKind.LATEST: "latest",
    StartKind.TIMESTAMP: "timestamp:<milliseconds since 1970>, timestamp:<ISO 8601 time>",
    StartKind.OFFSETS: "offsets:<partition>=<offset>;...",
    StartKind.OPPOSITE: "opposite",
}


@dataclass(frozen=True, slots=True)
class StartPosition:
    """``committed`` continues at the committed offset (the flow's rules where there is none). For a run, the others
    apply to every partition once, whatever was committed. ``timestamp_ms`` is UTC, milliseconds since 1970;
    ``offsets`` are (partition, offset) in the order of the partitions. ``opposite`` is the end of what the flow in
    the other direction has copied into the source topic: what comes behind it was written at the source itself."""

    kind: StartKind = StartKind.COMMITTED
    timestamp_ms: int | None = None
    offsets: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str | StartPosition, kinds: Sequence[StartKind] = OF_RUNS) -> StartPosition:
        """Read one of ``kinds``: a word, ``timestamp:<milliseconds>``, ``timestamp:<ISO 8601>`` or
        ``offsets:<partition>=<offset>;...``.

        A time without a zone is UTC. Raises :class:`ConfigError`.
        """
        if isinstance(text, StartPosition):
            return text
        word, _, rest = text.strip().partition(":")
        try:
            kind = StartKind(word.strip())
        except ValueError:
            raise _not_a_start(text, kinds) from None
        if kind not in kinds:
            raise _not_a_start(text, kinds)
        if kind is StartKind.TIMESTAMP:
            moment = _moment(rest.strip())
            if moment is None:
                raise _not_a_start(text, kinds)
            return cls(kind, moment)
        if kind is StartKind.OFFSETS:
            return cls(kind, offsets=_offsets(text, rest))
        if rest:
            raise _not_a_start(text, kinds)
        return cls(kind)

    def offset(self, partition: int) -> int | None:
        """The explicit offset of a partition, None where none is named."""
        return dict(self.offsets).get(partition)

    def __str__(self) -> str:
        if self.kind is StartKind.TIMESTAMP:
            return f"{self.kind.value}:{self.timestamp_ms}"
        if self.kind is StartKind.OFFSETS:
            return f"{self.kind.value}:" + ";".join(f"{partition}={offset}" for partition, offset in self.offsets)
        return self.kind.value


def _number(text: str) -> int | None:
    """Of 64 bits, not negative; None for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        return None
    number = int(text)
    return number if number < 1 << 63 else None


def _moment(text: str) -> int | None:
    number = _number(text)
    if number is not None:
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    moment_ms = round(moment.timestamp() * 1000)
    # Negative ones mean something else in a ListOffsets request: -1 is the end of the log.
    return moment_ms if moment_ms >= 0 else None


def _offsets(text: str, listed: str) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for piece in listed.split(";"):
        partition, offset = (_number(part.strip()) for part in piece.partition("=")[::2])
        if partition is None or offset is None:
            raise ConfigError(f"'{piece.strip()}' in '{text}' is not <partition>=<offset>, as in offsets:0=100;1=250")
        if partition in found:
            raise ConfigError(f"'{text}' names partition {partition} twice")
        found[partition] = offset
    return tuple(sorted(found.items()))


def _not_a_start(text: str, kinds: Sequence[StartKind]) -> ConfigError:
    forms = ", ".join(_FORMS[kind] for kind in kinds)
    first, _, last = forms.rpartition(", ")
    return ConfigError(f"'{text}' is not a start position; use {first} or {last}")


# A topic name has no "=", so the first one before such a word ends the expression.
_RULE = re.compile(r"(?P<pattern>.*?)\s*=\s*(?P<where>(?:earliest|latest|timestamp|offsets|opposite)\b.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TopicStart:
    """One rule: topics whose whole name ``pattern`` (a Java expression) matches start at ``where``."""

    pattern: str
    where: StartPosition

    def __str__(self) -> str:
        return f"{self.pattern}={self.where}"


def parse_topic_starts(text: str) -> tuple[TopicStart, ...]:
    """Read ``orders.*=latest, payments=timestamp:2026-01-01T00:00:00Z, audit=offsets:0=100;1=250``.

    Raises :class:`ConfigError`, whose text says what is wrong with which rule.
    """
    rules = []
    for piece in split_list(text):
        found = _RULE.fullmatch(piece)
        if found is None or not found["pattern"]:
            expression, mark, where = piece.partition("=")
            if mark and expression:
                StartPosition.parse(where, OF_RULES)
            raise ConfigError(f"'{piece}' is not <topic expression>=<start position>, as in orders.*=latest")
        fault = check_patterns((found["pattern"],))
        if fault is not None:
            raise ConfigError(f"'{piece}' has an expression that cannot be used: {fault}")
        rules.append(TopicStart(found["pattern"], StartPosition.parse(found["where"], OF_RULES)))
    return tuple(rules)


class StartRules:
    """The rules of a flow; the first that matches counts."""

    def __init__(self, rules: Sequence[TopicStart] = (), otherwise: str = "earliest") -> None:
        """``otherwise`` is ``earliest`` or ``latest``, for topics that no rule matches."""
        self._rules = [(PatternList((rule.pattern,)), rule) for rule in rules]
        self._otherwise = StartPosition(StartKind(otherwise)), f"auto.offset.reset={otherwise}"
        self._known: dict[str, tuple[StartPosition, str]] = {}

    def of(self, topic: str) -> tuple[StartPosition, str]:
        """Where a topic's partitions start, and which setting says so."""
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = next(
                ((rule.where, f"start.positions: {rule}") for pattern, rule in self._rules if pattern.matching(topic)),
                self._otherwise,
            )
        return found

    def may_be_latest(self, topic: str) -> bool:
        """Whether partitions of a topic start at what is the end of their log at that moment."""
        where = self.of(topic)[0]
        return StartKind.LATEST in (where.kind, self.otherwise.kind if where.kind is StartKind.OFFSETS else where.kind)

    @property
    def otherwise(self) -> StartPosition:
        return self._otherwise[0]
