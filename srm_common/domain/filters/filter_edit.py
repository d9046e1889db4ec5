"""An edit of a flow's lists: expressions to add and to remove, or whole lists to put in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from srm_common.domain.filters.flow_filters import FilterLists, FlowFilters
from srm_common.domain.patterns.name_filter import PatternList


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
        """Whether it can be made whatever the lists are now."""
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
        # Checked first: whether an expression is covered by another can only be told of one that can be used.
        FilterLists.of({key: new})
        left = tuple(pattern for pattern in before if pattern not in gone)
        after = (*left, *(pattern for pattern in new if pattern not in left))
        notes += [f"'{pattern}' is not in {key}" for pattern in gone if pattern not in before]
        notes += [f"'{pattern}' is in {key} already" for pattern in new if pattern in left]
        notes += _covered(key, left, [pattern for pattern in new if pattern not in left], "already")
        notes += _covered(key, after, [pattern for pattern in gone if pattern in before], "still")
        if after != before:
            lists = lists.with_list(key, after)
    return Edited(lists, tuple(notes))


def _covered(key: str, patterns: Sequence[str], names: Sequence[str], word: str) -> list[str]:
    """Notes on expressions that are plain names, which another expression of the list matches, too."""
    others = PatternList(patterns)
    found = ((name, others.matching(name)) for name in names)
    return [f"'{name}' is {word} matched by '{other}' of {key}" for name, other in found if other is not None]
