"""Where partitions without progress start, topic by topic: ``start.positions``, else ``auto.offset.reset``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from srm_common.domain.flow.start_position import OF_RULES, StartKind, StartPosition
from srm_common.domain.patterns.name_filter import PatternList, check_patterns, split_list
from srm_common.errors import ConfigError

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

    @property
    def otherwise(self) -> StartPosition:
        return self._otherwise[0]
