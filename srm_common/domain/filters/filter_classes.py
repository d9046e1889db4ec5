"""Which names a flow takes in: its lists of expressions, or a class of the user's own that is given them.

``topic.filter.class``, ``group.filter.class`` and ``config.property.filter.class`` name such a class by its dotted
Python path. It is made once for each look at the names, with the flow's include and exclude lists (properties have an
exclude list only, so all are included), and asked about one name at a time::

    class OfMyTeam:
        def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None: ...
        def accepts(self, name: str) -> bool: ...

Java's own classes of lists (``org.apache.kafka.connect.mirror.DefaultTopicFilter``) mean the lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.patterns.name_filter import Decision, NameFilter
from srm_common.errors import ConfigError

_ALL = (".*",)


class Chooser(Protocol):
    """Decides on names of one kind."""

    def decide(self, name: str) -> Decision: ...


def topic_filter(flow: FlowSettings) -> Chooser:
    """What the flow makes of the names of topics. Raises :class:`ConfigError`."""
    return _chooser("topic.filter.class", flow.topic_filter_class, "topics", flow.topics, flow.topics_exclude)


def group_filter(flow: FlowSettings) -> Chooser:
    """What the flow makes of the names of consumer groups. Raises :class:`ConfigError`."""
    return _chooser("group.filter.class", flow.group_filter_class, "groups", flow.groups, flow.groups_exclude)


def property_filter(flow: FlowSettings) -> Chooser:
    """What the flow makes of the names of topics' properties. Raises :class:`ConfigError`."""
    key, own = "config.property.filter.class", flow.config_property_filter_class
    return _chooser(key, own, "config.properties", _ALL, flow.config_properties_exclude)


class _OwnFilter:
    """A filter of the user's own. What it raises about a name keeps that name out, and no other."""

    def __init__(self, by: str, made: Any) -> None:
        self._by = by
        self._made = made

    def decide(self, name: str) -> Decision:
        try:
            accepted = bool(self._made.accepts(name))
        except Exception as error:  # whatever a class of somebody else may raise
            return Decision(False, f"{self._by} failed on it: {type(error).__name__}: {error}")
        return Decision(accepted, f"{self._by} {'takes it' if accepted else 'leaves it out'}")


def _chooser(key: str, own: FilterClass | None, kind: str, include: Sequence[str], exclude: Sequence[str]) -> Chooser:
    if own is None:
        return NameFilter.of(kind, include, exclude)
    try:
        return _OwnFilter(f"{key} {own.path}", own.make(tuple(include), tuple(exclude)))
    except Exception as error:  # whatever a class of the user's may raise
        raise ConfigError(f"{key} '{own.path}' cannot be made: {type(error).__name__}: {error}") from error
