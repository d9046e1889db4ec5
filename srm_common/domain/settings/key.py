"""A setting: a key with its type, unit, default, meaning, and the levels at which it may be set.

The table of all keys is in :mod:`srm_common.domain.settings.table`; where values come from is in
:mod:`srm_common.domain.settings.layers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from dataclasses import field as dataclass_field
from enum import Enum
from typing import Any, TypeVar

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.start_position import TopicStart, parse_topic_starts
from srm_common.domain.patterns.name_filter import check_patterns, split_list
from srm_common.errors import ConfigError


class Level(Enum):
    """Where a key may be written, weakest first. The value is the form of the full key."""

    TOP = "key"
    WORKERS = "workers.key"
    CONNECTORS = "connectors.key"
    SOURCE = "<source>.key"
    CLUSTER = "<target>.key"
    FLOW = "<source>-><target>.key"
    FLOW_WORKER = "<source>-><target>.worker.key"


STRONGEST_FIRST = tuple(reversed(Level))
CONNECTOR_LEVELS = (Level.TOP, Level.CONNECTORS, Level.FLOW)
WORKER_LEVELS = (Level.TOP, Level.WORKERS, Level.CLUSTER, Level.FLOW, Level.FLOW_WORKER)
#: The largest of Java's ``int``, the type of these settings in Kafka's clients and of their fields in requests.
LARGEST_INT = 2**31 - 1
#: Likewise of a ``short``: replicas of a topic.
LARGEST_SHORT = 2**15 - 1
#: Of settings of connections, which clusters, sides and clients may have as well.
CONNECTION_LEVELS = (Level.TOP, Level.CONNECTORS, Level.CLUSTER, Level.FLOW)
ALL_LEVELS = tuple(level for level in Level if level is not Level.SOURCE)
FLOW_ONLY = (Level.FLOW,)

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
FUNCTION_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FLOW_FIELDS = frozenset(field.name for field in fields(FlowSettings))


N = TypeVar("N", int, float)


def consumer_spellings(name: str) -> tuple[tuple[Level, str], ...]:
    """Where Kafka's consumer setting ``name`` may be written for the consumer that reads the source."""
    return (
        (Level.FLOW, f"source.consumer.{name}"),
        (Level.FLOW, f"source.cluster.consumer.{name}"),
        *((level, f"consumer.{name}") for level in (Level.FLOW, Level.SOURCE, Level.CONNECTORS, Level.TOP)),
    )


def producer_spellings(name: str) -> tuple[tuple[Level, str], ...]:
    """Where Kafka's producer setting ``name`` may be written for the producer that writes to the target."""
    return (
        (Level.FLOW, f"target.producer.{name}"),
        (Level.FLOW, f"target.cluster.producer.{name}"),
        *(
            (level, f"{prefix}{name}")
            for level in (Level.FLOW, Level.CLUSTER, Level.CONNECTORS, Level.TOP)
            for prefix in ("producer.override.", "producer.")
        ),
    )


class BadValue(ValueError):
    """A value that its key does not accept; the text says what it accepts."""


class Kind(Enum):
    """Type of a value."""

    TEXT = "text"
    WHOLE = "whole number"
    WHOLE_OR_NONE = "whole number, or `none`"
    NUMBER = "number"
    NUMBER_OR_AUTO = "number, or `auto`"
    SWITCH = "true or false"
    CHOICE = "one of a few words"
    CHOICES = "comma separated list of a few words"
    NAMES = "comma separated list"
    PATTERNS = "comma separated list of regular expressions"
    TOPIC = "name of a topic"
    FUNCTION = "package.module:function"
    STARTS = "comma separated list of topic expression = start position"


@dataclass(frozen=True, slots=True)
class Place:
    """A level at which a key is looked up, by its number in :data:`STRONGEST_FIRST`; there each of ``also`` counts, and
    of ``names`` the first one."""

    number: int
    also: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    ``default`` is written as in a file; None means there is none. ``unit`` is the unit of a number. ``legacy`` are
    older names, read where the key itself is absent at the same level. ``also`` are further spellings at one level,
    which take precedence over the key itself there. ``note`` explains a key that is known from MirrorMaker 2 and
    accepted, but has no effect here. Of these, ``matters`` says whether a user who sets it expects other data on the
    target or another cost, and ``anyway`` are the values that ask for what happens here.
    """

    name: str
    kind: Kind
    default: str | None
    section: str
    doc: str = ""
    reason: str = ""
    unit: str = ""
    levels: tuple[Level, ...] = CONNECTOR_LEVELS
    flow_field: str | None = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    legacy: tuple[str, ...] = ()
    also: tuple[tuple[Level, str], ...] = ()
    note: str = ""
    matters: bool = False
    anyway: tuple[str, ...] = ()
    #: Where it is looked up, strongest first; made once, as each flow looks up each key.
    places: tuple[Place, ...] = dataclass_field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = []
        for number, level in enumerate(STRONGEST_FIRST):
            prefix = "worker." if level is Level.FLOW_WORKER else ""
            also = tuple(name for there, name in self.also if there is level)
            names = tuple(prefix + name for name in (self.name, *self.legacy)) if level in self.levels else ()
            if also or names:
                places.append(Place(number, also, names))
        object.__setattr__(self, "places", tuple(places))

    def means(self, doc: str, reason: str = "") -> Key:
        """With what it does, and the reason for its default."""
        return replace(self, doc=doc, reason=reason)

    @property
    def field(self) -> str | None:
        """The field of :class:`srm_common.domain.flow.FlowSettings` that it fills: called like the key unless
        ``flow_field`` says otherwise (empty: its reader fills it). None for keys read elsewhere or without effect."""
        called = self.name.replace(".", "_") if self.flow_field is None else self.flow_field
        return called if called in _FLOW_FIELDS and not self.note else None

    @property
    def is_family(self) -> bool:
        """Whether the name ends in ``.*`` and matches every key with that prefix."""
        return self.name.endswith(".*")

    def parse(self, text: str) -> Any:
        """The typed value. Raises :class:`BadValue`."""
        return _PARSERS[self.kind](self, text.strip())


def _whole(key: Key, text: str) -> int:
    unit = f" of {key.unit}" if key.unit else ""
    try:
        # int() alone would take "1_000" and other digits than Java's Integer.parseInt.
        if not text.isascii() or "_" in text:
            raise ValueError
        number = int(text)
    except ValueError:
        raise BadValue(f"must be a whole number{unit}, but is '{text}'") from None
    return _bounded(key, number)


def _number(key: Key, text: str) -> float:
    unit = f" of {key.unit}" if key.unit else ""
    try:
        if not text.isascii() or "_" in text:
            raise ValueError
        number = float(text)
    except ValueError:
        raise BadValue(f"must be a number{unit}, but is '{text}'") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise BadValue(f"must be a finite number{unit}, but is '{text}'")
    return _bounded(key, number)


def _whole_or_none(key: Key, text: str) -> int | None:
    return None if text.lower() == "none" else _whole(key, text)


def _number_or_auto(key: Key, text: str) -> float | None:
    return None if text.lower() == "auto" else _number(key, text)


def _bounded(key: Key, number: N) -> N:
    unit = f" {key.unit}" if key.unit else ""
    if key.minimum is not None and number < key.minimum:
        raise BadValue(f"must be at least {_written(key.minimum)}{unit}, but is {_written(number)}")
    if key.maximum is not None and number > key.maximum:
        raise BadValue(f"must be at most {_written(key.maximum)}{unit}, but is {_written(number)}")
    return number


def _written(number: float) -> str:
    """Whole numbers with all of their digits, however many."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _switch(key: Key, text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise BadValue(f"must be true or false, but is '{text}'")
    return lowered == "true"


def _choice(key: Key, text: str) -> str:
    lowered = text.lower()
    if lowered not in key.choices:
        raise BadValue(f"must be one of {', '.join(key.choices)}, but is '{text}'")
    return lowered


def _choices(key: Key, text: str) -> tuple[str, ...]:
    words = split_list(text.lower())
    if not words or not set(words) <= set(key.choices):
        raise BadValue(f"must be one or more of {', '.join(key.choices)}, but is '{text}'")
    if "none" in words and set(words) != {"none"}:
        raise BadValue(f"must be none alone or a list without it, but is '{text}'")
    return words


def _patterns(key: Key, text: str) -> tuple[str, ...]:
    patterns = split_list(text)
    fault = check_patterns(patterns)
    if fault is not None:
        raise BadValue(f"has an expression that cannot be used: {fault}")
    return patterns


def _topic(key: Key, text: str) -> str:
    """By the rules of Kafka's ``Topic.validate``; empty for none."""
    if text and (not _TOPIC_NAME.fullmatch(text) or text in (".", "..")):
        raise BadValue(f"must be the name of a topic (at most 249 of a-z, A-Z, 0-9, '.', '_' and '-'), but is '{text}'")
    return text


def _function(key: Key, text: str) -> str:
    if text and not FUNCTION_PATH.fullmatch(text):
        raise BadValue(f"must name a Python function as package.module:function, but is '{text}'")
    return text


def _starts(key: Key, text: str) -> tuple[TopicStart, ...]:
    try:
        return parse_topic_starts(text)
    except ConfigError as error:
        raise BadValue(f"cannot be used: {error.reason}") from None


_PARSERS: dict[Kind, Callable[[Key, str], Any]] = {
    Kind.TEXT: lambda key, text: text,
    Kind.WHOLE: _whole,
    Kind.WHOLE_OR_NONE: _whole_or_none,
    Kind.NUMBER: _number,
    Kind.NUMBER_OR_AUTO: _number_or_auto,
    Kind.SWITCH: _switch,
    Kind.CHOICE: _choice,
    Kind.CHOICES: _choices,
    Kind.NAMES: lambda key, text: split_list(text),
    Kind.PATTERNS: _patterns,
    Kind.TOPIC: _topic,
    Kind.FUNCTION: _function,
    Kind.STARTS: _starts,
}
