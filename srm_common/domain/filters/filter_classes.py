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

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from srm_common.domain.patterns.name_filter import Decision, NameFilter
from srm_common.errors import ConfigError

if TYPE_CHECKING:
    from srm_common.domain.flow import FlowSettings

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
    key, written = "config.property.filter.class", flow.config_property_filter_class
    return _chooser(key, written, "config.properties", _ALL, flow.config_properties_exclude)


def filter_class(written: str, default: str) -> str | None:
    """The class that the value of one of the keys names, None for the lists of expressions.

    Raises:
        ConfigError: it cannot be imported, or is not such a class; the message has no file, line or key.
    """
    module, _, name = written.rpartition(".")
    if name == default and module in ("", "org.apache.kafka.connect.mirror"):
        return None
    _imported(written, default)
    return written


class _Users:
    """A class of the user's own. What it raises about a name keeps that name out, and no other."""

    def __init__(self, key: str, written: str, made: Any) -> None:
        self._by = f"{key} {written}"
        self._made = made

    def decide(self, name: str) -> Decision:
        try:
            accepted = bool(self._made.accepts(name))
        except Exception as error:  # a third-party class may raise anything
            return Decision(False, f"{self._by} failed on it: {type(error).__name__}: {error}")
        return Decision(accepted, f"{self._by} {'takes it' if accepted else 'leaves it out'}")


def _chooser(key: str, written: str | None, kind: str, include: Sequence[str], exclude: Sequence[str]) -> Chooser:
    if written is None:
        return NameFilter.of(kind, include, exclude)
    try:
        return _Users(key, written, _imported(written, "the lists of expressions")(tuple(include), tuple(exclude)))
    except ConfigError as error:
        raise ConfigError(f"{key} {error.reason}") from error
    except Exception as error:  # likewise
        raise ConfigError(f"{key} '{written}' cannot be instantiated: {type(error).__name__}: {error}") from error


def _imported(written: str, default: str) -> Any:
    module, _, name = written.rpartition(".")
    if not module:
        raise ConfigError(f"there is no filter '{written}'; use {default}, or the dotted path of a Python class")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # an import runs third-party code
        missing = isinstance(error, ModuleNotFoundError) and error.name and (module + ".").startswith(error.name + ".")
        reason = (
            f"no such Python module (Java classes are not loaded); use {default}"
            if missing
            else f"{type(error).__name__}: {error}"
        )
        raise ConfigError(f"'{written}' cannot be imported: {reason}") from error
    if found is None:
        raise ConfigError(f"module '{module}' has no '{name}'")
    if not isinstance(found, type) or not callable(getattr(found, "accepts", None)):
        raise ConfigError(f"'{written}' is not a class with a method accepts(name); docs/filters.md shows one")
    return found
