"""The filters of a flow, which may be edited while it runs: the lists of the Airflow variable
``srm_filters__<source>__<target>`` on top of those in the properties file.

The variable holds a JSON object. Each key replaces the list of the same name; a key that is not there leaves the
properties file's list as it is::

    {"topics": ["orders.*"], "topics.exclude": ["orders\\\\.test.*"], "groups": [".*"], "groups.exclude": []}
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.patterns.name_filter import Decision, NameFilter, PatternList, check_patterns, split_list
from srm_common.errors import ConfigError

#: Key of the document -> field of FlowFilters and of FlowSettings.
FIELDS = {
    "topics": "topics",
    "topics.exclude": "topics_exclude",
    "groups": "groups",
    "groups.exclude": "groups_exclude",
    "reverse.checkpointed.topics": "reverse_topics",
    "reverse.checkpointed.topics.exclude": "reverse_topics_exclude",
}
IN_FILE = "the properties file"

_AWKWARD = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class FilterLists:
    """The lists that an edit sets: the content of the variable. Keys that are absent stay as the file has them."""

    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, lists: Mapping[str, Sequence[str]]) -> FilterLists:
        """Lists by key, in the order of :data:`FIELDS`.

        Raises:
            ConfigError: an unknown key, or an expression that cannot be used; names key and position.
        """
        for key in lists:
            if key not in FIELDS:
                near = difflib.get_close_matches(key, FIELDS, n=1)
                raise ConfigError(f"there is no list '{key}'; {'it may be ' + near[0] if near else _known()}")
        made = tuple((key, _entries(key, lists[key])) for key in FIELDS if key in lists)
        for key, patterns in made:
            fault = check_patterns(patterns)
            if fault is not None:
                raise ConfigError(f"{key}: {fault}")
        return cls(made)

    @classmethod
    def parse(cls, text: str) -> FilterLists:
        """The variable's JSON; a list may also be one comma separated string. Raises :class:`ConfigError`."""
        try:
            document = json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            raise ConfigError(
                f"this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; {_EXAMPLE}"
            ) from None
        except RecursionError:
            raise ConfigError(f"this is not JSON that can be read: it is nested too deeply; {_EXAMPLE}") from None
        except ValueError:  # of Python's integers
            raise ConfigError(f"this is not JSON that can be read: a number is too long; {_EXAMPLE}") from None
        return cls.from_json(document)

    @classmethod
    def from_json(cls, document: Any) -> FilterLists:
        """A decoded document. Raises :class:`ConfigError`."""
        if not isinstance(document, Mapping):
            raise ConfigError(f"a JSON object is needed, but it is {_kind(document)}; {_EXAMPLE}")
        lists: dict[str, Sequence[str]] = {}
        for key, value in document.items():
            if isinstance(value, str):
                lists[key] = split_list(value)
            elif isinstance(value, list) and all(isinstance(one, str) for one in value):
                lists[key] = value
            else:
                raise ConfigError(f'{key} must be a list of expressions, such as ["orders.*"]; it is {_kind(value)}')
        return cls.of(lists)

    def to_json(self) -> dict[str, list[str]]:
        return {key: list(patterns) for key, patterns in self.lists}

    def format(self) -> str:
        """The variable's text: one line per list, for editing in a browser."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False)

    def get(self, key: str) -> tuple[str, ...] | None:
        return dict(self.lists).get(key)

    def with_list(self, key: str, patterns: Sequence[str]) -> FilterLists:
        """Raises :class:`ConfigError`."""
        return FilterLists.of({**dict(self.lists), key: patterns})

    def over(self, flow: FlowSettings, origin: str) -> FlowFilters:
        """The lists in effect for ``flow``: these, which are from ``origin``, and the flow's own for the others."""
        return self.over_filters(FlowFilters.of(flow), origin)

    def over_filters(self, filters: FlowFilters, origin: str = "") -> FlowFilters:
        """The same over other lists."""
        if not self.lists:
            return filters
        changes = {FIELDS[key]: patterns for key, patterns in self.lists}
        return replace(filters, origin=origin, edited=tuple(key for key, _ in self.lists), **changes)


@dataclass(frozen=True, slots=True)
class FlowFilters:
    """The lists in effect for a flow. ``origin`` says where those named in ``edited`` come from; all others are in the
    properties file."""

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
    origin: str = IN_FILE
    reverse_topics: tuple[str, ...] = ()
    reverse_topics_exclude: tuple[str, ...] = ()
    edited: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, flow: FlowSettings) -> FlowFilters:
        """The lists of the properties file."""
        return cls(**{name: getattr(flow, name) for name in FIELDS.values()})

    @classmethod
    def parse(cls, text: str, flow: FlowSettings, origin: str) -> FlowFilters:
        """The variable's JSON over the lists of ``flow``. Raises :class:`ConfigError`."""
        return FilterLists.parse(text).over(flow, origin)

    def applied_to(self, flow: FlowSettings) -> FlowSettings:
        """The flow as it runs."""
        return replace(flow, **{name: getattr(self, name) for name in FIELDS.values()})

    def lists(self) -> FilterLists:
        """All of them, spelled out."""
        return FilterLists(tuple((key, getattr(self, name)) for key, name in FIELDS.items()))

    def patterns(self, key: str) -> tuple[str, ...]:
        """The list of a key of :data:`FIELDS`."""
        found: tuple[str, ...] = getattr(self, FIELDS[key])
        return found

    def origin_of(self, key: str) -> str:
        return self.origin if key in self.edited else IN_FILE


def variable_name(flow: FlowName) -> str:
    """The Airflow variable with a flow's filters; the aliases as they are written."""
    return f"srm_filters__{flow.source}__{flow.target}"


def environment_safe_name(flow: FlowName) -> str:
    """The same, with ``_`` for what shells refuse in the name of an environment variable (``us-east``, ``eu.1``)."""
    return _AWKWARD.sub("_", variable_name(flow))


def in_environment(variable: str) -> str:
    """The environment variable by which Airflow overrides one of its own (airflow.secrets.environment_variables)."""
    return f"AIRFLOW_VAR_{variable.upper()}"


def variable_names(flow: FlowName, flows: Sequence[FlowName]) -> tuple[str, ...]:
    """Names to look under; the first that exists counts. The safe name is left out where another flow may claim it.

    Args:
        flows: all flows of the file.

    Raises:
        ConfigError: two flows would share one variable (``a__b->c`` and ``a->b__c``).
    """
    others = [other for other in flows if other != flow]
    name, safe = variable_name(flow), environment_safe_name(flow)
    for other in others:
        if variable_name(other) == name:
            raise ConfigError(
                f"flows {flow} and {other} would share the Airflow variable {name}; rename one of the clusters"
            )
    claimed = {
        spelling.upper() for other in others for spelling in (variable_name(other), environment_safe_name(other))
    }
    return (name,) if safe == name or safe.upper() in claimed else (name, safe)


def _entries(key: str, patterns: Sequence[str]) -> tuple[str, ...]:
    stripped = tuple(pattern.strip() for pattern in patterns)
    if not all(stripped):
        raise ConfigError(f"{key} has an empty expression")
    return stripped


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ConfigError(f"{twice} is there twice")
    return found


def _known() -> str:
    return f"the lists are {', '.join(FIELDS)}"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


_EXAMPLE = 'write it like {"topics": ["orders.*"], "topics.exclude": ["orders\\\\.test.*"]}'


# An edit of a flow's lists: expressions to add and to remove, or whole lists to put in their place.


@dataclass(frozen=True)
class FilterEdit:
    """``add`` and ``remove`` hold expressions by the key of their list; ``put`` are lists that replace those there are.
    Lists whose keys are in ``reset`` are again as the properties file has them, before anything else.

    Expressions are compared as they are written: to remove ``a.*`` leaves ``ab`` in the list.
    """

    add: Mapping[str, Sequence[str]] = field(default_factory=dict)
    remove: Mapping[str, Sequence[str]] = field(default_factory=dict)
    put: FilterLists = field(default_factory=FilterLists)
    reset: tuple[str, ...] = ()

    @property
    def replaces(self) -> bool:
        """Whether the edit does not depend on the current lists."""
        return bool(self.put.lists or self.reset)

    def __bool__(self) -> bool:
        return bool(self.replaces or any(self.add.values()) or any(self.remove.values()))


@dataclass(frozen=True)
class Edited:
    """The lists after an edit, and what its author should know about it."""

    lists: FilterLists
    notes: tuple[str, ...] = ()


def edited(in_file: FlowFilters, lists: FilterLists, edit: FilterEdit) -> Edited:
    """Carry out an edit.

    Only lists that the edit changes are added to ``lists``; the others stay as they are, in the properties file.

    Args:
        in_file: the lists of the properties file.
        lists: the edited lists, which count instead.

    Raises:
        ConfigError: an expression cannot be used; names list and position.
    """
    notes: list[str] = []
    lists = FilterLists(tuple((key, patterns) for key, patterns in lists.lists if key not in edit.reset))
    for key, patterns in edit.put.lists:
        lists = lists.with_list(key, patterns)
    for key in {**edit.remove, **edit.add}:
        before = lists.get(key)
        if before is None:
            before = in_file.patterns(key)
        gone, new = tuple(edit.remove.get(key, ())), tuple(dict.fromkeys(edit.add.get(key, ())))
        # Checked first: only of a valid expression it is known whether another one covers it.
        FilterLists.of({key: new})
        left = tuple(pattern for pattern in before if pattern not in gone)
        after = (*left, *(pattern for pattern in new if pattern not in left))
        if after != before:
            lists = lists.with_list(key, after)
        notes += [f"'{pattern}' is not in {key}" for pattern in gone if pattern not in before]
        notes += [f"'{pattern}' is in {key} already" for pattern in new if pattern in left]
        notes += _covered(key, left, [pattern for pattern in new if pattern not in left], "already")
        notes += _covered(key, after, [pattern for pattern in gone if pattern in before], "still")
    return Edited(lists, tuple(notes))


def _covered(key: str, patterns: Sequence[str], names: Sequence[str], word: str) -> list[str]:
    """Notes on expressions that are plain names, which another expression of the list matches, too."""
    others = PatternList(patterns)
    found = ((name, others.matching(name)) for name in names)
    return [f"'{name}' is {word} matched by '{other}' of {key}" for name, other in found if other is not None]


# Which names a flow includes: its lists of expressions decide, or a class of the user's own that is given them.
#
# ``topic.filter.class``, ``group.filter.class`` and ``config.property.filter.class`` name such a class by its dotted
# Python path. It is instantiated whenever names are evaluated, with the flow's include and exclude lists (properties
# have an exclude list only, so all are included), and asked about one name at a time::
#
#     class OfMyTeam:
#         def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None: ...
#         def accepts(self, name: str) -> bool: ...
#
# Java's own classes of lists (``org.apache.kafka.connect.mirror.DefaultTopicFilter``) mean the lists.


_ALL = (".*",)


class Chooser(Protocol):
    """Decides on names of one kind."""

    def decide(self, name: str) -> Decision: ...


def topic_filter(flow: FlowSettings) -> Chooser:
    """The flow's filter of topic names. Raises :class:`ConfigError`."""
    return _chooser("topic.filter.class", flow.topic_filter_class, "topics", flow.topics, flow.topics_exclude)


def group_filter(flow: FlowSettings) -> Chooser:
    """The flow's filter of consumer group names. Raises :class:`ConfigError`."""
    return _chooser("group.filter.class", flow.group_filter_class, "groups", flow.groups, flow.groups_exclude)


def property_filter(flow: FlowSettings) -> Chooser:
    """The flow's filter of topic property names. Raises :class:`ConfigError`."""
    key, own = "config.property.filter.class", flow.config_property_filter_class
    return _chooser(key, own, "config.properties", _ALL, flow.config_properties_exclude)


class _OwnFilter:
    """A filter of the user's own. An exception about a name excludes that name, and no other."""

    def __init__(self, by: str, made: Any) -> None:
        self._by = by
        self._made = made

    def decide(self, name: str) -> Decision:
        try:
            accepted = bool(self._made.accepts(name))
        except Exception as error:  # whatever third-party code may raise
            return Decision(False, f"{self._by} failed on it: {type(error).__name__}: {error}")
        return Decision(accepted, f"{self._by} {'takes it' if accepted else 'leaves it out'}")


def _chooser(key: str, own: FilterClass | None, kind: str, include: Sequence[str], exclude: Sequence[str]) -> Chooser:
    if own is None:
        return NameFilter.of(kind, include, exclude)
    try:
        return _OwnFilter(f"{key} {own.path}", own.make(tuple(include), tuple(exclude)))
    except Exception as error:  # whatever third-party code may raise
        raise ConfigError(f"{key} '{own.path}' cannot be instantiated: {type(error).__name__}: {error}") from error
